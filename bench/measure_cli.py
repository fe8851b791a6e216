"""Benchmark: duration of read commands on an index of 400,000 runs and of `import clew`, and size of agent replies.

Queries run with current cache files, after a batch has changed the index, and without cache files. Figures are CPU time
of whole processes, best of two, because the machine may be busy. Modules are compiled before, as in an installed
package.

python -m bench.measure_cli [EVENTS]
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from bench.figures import Baseline, Report
from bench.many_runs import add_batch, job_name, run_id, session_id, table_name, write_index
from bench.plain import measure_import_cpu, measure_module_import
from bench.rounds import parse_run_size, scratch_folder
from mcp import Client

from clew.mcp.server import create_server
from clew.query.context import QueryResources, sidecar_path
from clew.query.service import LineageService

_RUNS = 400_000
_REPEATS = 2
_TARGET_SECONDS = 0.4
_CHARACTERS_PER_TOKEN = 3
_COLUMN, _FAR_COLUMN = f"{table_name(5)}.amount", f"{table_name(40)}.amount"


def list_commands(runs: int) -> dict[str, tuple[str, ...]]:
    """List every read command with arguments."""
    return {
        "runs": ("runs",),
        "runs --failed": ("runs", "--failed"),
        "runs --slow": ("runs", "--slow"),
        "show": ("show", session_id(7)),
        "upstream of a column": ("upstream", _FAR_COLUMN, "--depth", "5"),
        "upstream of a dataset": ("upstream", table_name(40)),
        "upstream of a run": ("upstream", run_id(5)),
        "downstream of a column": ("downstream", _COLUMN),
        "downstream of a dataset": ("downstream", table_name(5)),
        "downstream of a job": ("downstream", job_name(5)),
        "path of datasets": ("path", table_name(5), table_name(40)),
        "path of columns": ("path", _COLUMN, _FAR_COLUMN),
        "impact": ("impact", _COLUMN),
        "diff": ("diff", run_id(5), run_id(runs - 1)),
        "search": ("search", "orders_1234"),
        "export": ("export", table_name(5), "--format", "mermaid"),
        "facets": ("facets", "job", "nightly", job_name(5)),
        "report performance": ("report", "performance"),
        "report audit": ("report", "audit", session_id(7)),
        "report quality": ("report", "quality", table_name(5)),
        "report documentation": ("report", "documentation", session_id(7)),
        "config": ("config",),
    }


TOOLS: dict[str, dict[str, str]] = {
    "search": {"query": "orders"},
    "describe": {"name": table_name(5)},
    "upstream": {"name": _FAR_COLUMN},
    "downstream": {"name": table_name(5)},
    "impact": {"name": _COLUMN},
    "list_runs": {},
}


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report, runs = Report("cli", run_size), run_size.scale(_RUNS, 1_000)
    start_up = Baseline("start of Python with sqlite3, click, rich", measure_import_cpu(["sqlite3", "click", "rich"]))
    with scratch_folder() as folder:
        write_index(folder / "index.sqlite", runs)
        size = (folder / "index.sqlite").stat().st_size
        report.log(f"an index of {runs:,} runs, {size / 1e6:,.0f} MB")
        for state in (CurrentCaches(folder), OutdatedCaches(folder, runs), NoCaches(folder)):
            repeats = run_size.scale(_REPEATS)
            durations = {
                name: _measure_command(folder, command, state, repeats) for name, command in list_commands(runs).items()
            }
            for name, seconds in sorted(durations.items(), key=lambda pair: -pair[1]):
                report.log(f"  {name:24} {seconds:.2f} s")
            slowest = max(durations, key=lambda name: durations[name])
            report.log(f"slowest: {slowest}")
            report.check_max(
                f"slowest command {state.label}", durations[slowest], _TARGET_SECONDS, " s", baseline=start_up
            )
        clew, pandas = (1000 * measure_module_import(name) for name in ("clew", "pandas"))
        report.check_max("import clew", clew, 50, " ms", baseline=Baseline("import pandas", pandas))
        replies = _measure_replies(folder / "index.sqlite")
        report.check_max(
            "longest reply to an agent",
            max(replies) / _CHARACTERS_PER_TOKEN,
            4_000,
            " tokens",
            baseline=Baseline("the lineage of the HTTP API", _measure_document(folder) / _CHARACTERS_PER_TOKEN),
        )


class CurrentCaches:
    """State with current cache files."""

    label = "with current caches"

    def __init__(self, folder: Path) -> None:
        with QueryResources(folder / "index.sqlite") as resources:
            resources.refresh_caches()

    def prepare(self) -> None:
        """Do nothing."""


class OutdatedCaches:
    """State after a batch has changed the index."""

    label = "after a batch"

    def __init__(self, folder: Path, runs: int) -> None:
        self._index, self._next = folder / "index.sqlite", runs + 1_000_000

    def prepare(self) -> None:
        """Add a batch."""
        add_batch(self._index, self._next)
        self._next += 1_000


class NoCaches:
    """State without cache files."""

    label = "without caches"

    def __init__(self, folder: Path) -> None:
        self._index = folder / "index.sqlite"

    def prepare(self) -> None:
        """Remove the cache files."""
        for name in ("lineage", "columns", "search", "search-wal", "search-shm"):
            sidecar_path(self._index, name).unlink(missing_ok=True)


State = CurrentCaches | OutdatedCaches | NoCaches


def _measure_command(home: Path, command: tuple[str, ...], state: State, repeats: int) -> float:
    """Measure the best CPU time of a command."""
    return min(_run_command(home, command, state) for _ in range(repeats))


def _run_command(home: Path, command: tuple[str, ...], state: State) -> float:
    state.prepare()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(
        [sys.executable, "-m", "clew", *command, *(() if command == ("config",) else ("--home", str(home)))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "compiled")},
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {process.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _measure_document(folder: Path) -> int:
    """Measure the length of the lineage of the column that the tools are asked for, as JSON."""
    with QueryResources(folder / "index.sqlite") as resources:
        return len(msgspec.json.encode(LineageService(resources).traverse(_FAR_COLUMN, "upstream")))


def _measure_replies(index: Path) -> list[int]:
    """Measure the length of the tools' replies, text and structured data together."""

    async def call_tools() -> list[int]:
        async with Client(create_server(index)) as client:
            lengths = []
            for tool, arguments in TOOLS.items():
                start = time.process_time()
                result = await client.call_tool(tool, arguments)
                if result.is_error:
                    raise SystemExit(f"{tool}: {result.content}")
                length = sum(len(getattr(block, "text", "")) for block in result.content)
                lengths.append(length + len(msgspec.json.encode(result.structured_content)))
                tokens, seconds = lengths[-1] // _CHARACTERS_PER_TOKEN, time.process_time() - start
                print(f"  tool {tool}: {tokens:,} tokens, {seconds:.2f} s")
            return lengths

    return asyncio.run(call_tools())


if __name__ == "__main__":
    main()
