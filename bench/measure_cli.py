"""How long commands that read take on an index of a million runs, how long `import clew` does, and what agents pay.

A question is asked when all that is kept beside the index is up to date, after a batch has changed the index, and when
nothing is kept at all. Processor time of whole processes, the best of three: the machine may be busy with something
else. Modules are compiled before, as those of an installed package are.

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
from bench.figures import Report
from bench.many_runs import add_batch, job, run_id, session_id, table, write_index
from bench.rounds import asked_for, scratch
from mcp import Client

from clew.mcp.server import create_server
from clew.query.context import QueryResources, sidecar_path

_RUNS = 1_000_000
_TRIES = 3
_BAR_SECONDS = 0.4
_COLUMN, _FAR = f"{table(5)}.amount", f"{table(40)}.amount"


def commands(runs: int) -> dict[str, tuple[str, ...]]:
    """Every command that reads, with something to read."""
    return {
        "runs": ("runs",),
        "runs --failed": ("runs", "--failed"),
        "runs --slow": ("runs", "--slow"),
        "show": ("show", session_id(7)),
        "upstream of a column": ("upstream", _FAR, "--depth", "5"),
        "upstream of a dataset": ("upstream", table(40)),
        "upstream of a run": ("upstream", run_id(5)),
        "downstream of a column": ("downstream", _COLUMN),
        "downstream of a dataset": ("downstream", table(5)),
        "downstream of a job": ("downstream", job(5)),
        "path of datasets": ("path", table(5), table(40)),
        "path of columns": ("path", _COLUMN, _FAR),
        "impact": ("impact", _COLUMN),
        "diff": ("diff", run_id(5), run_id(runs - 1)),
        "search": ("search", "orders_1234"),
        "export": ("export", table(5), "--format", "mermaid"),
        "facets": ("facets", "job", "nightly", job(5)),
        "report performance": ("report", "performance"),
        "report audit": ("report", "audit", session_id(7)),
        "report quality": ("report", "quality", table(5)),
        "report documentation": ("report", "documentation", session_id(7)),
        "config": ("config",),
    }


TOOLS: dict[str, dict[str, str]] = {
    "search": {"query": "orders"},
    "describe": {"name": table(5)},
    "upstream": {"name": _FAR},
    "downstream": {"name": table(5)},
    "impact": {"name": _COLUMN},
    "list_runs": {},
}


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report, runs = Report("cli", asked), asked.share(_RUNS, 1_000)
    with scratch() as folder:
        write_index(folder / "index.sqlite", runs)
        size = (folder / "index.sqlite").stat().st_size
        report.say(f"an index of {runs:,} runs, {size / 1e6:,.0f} MB")
        for state in (Kept(folder), Changed(folder, runs), Bare(folder)):
            found = {name: _seconds(folder, one, state) for name, one in commands(runs).items()}
            for name, seconds in sorted(found.items(), key=lambda pair: -pair[1]):
                report.say(f"  {name:24} {seconds:.2f} s")
            slowest = max(found, key=lambda name: found[name])
            report.at_most(f"slowest command {state.when} ({slowest})", found[slowest], _BAR_SECONDS, " s")
        report.at_most("import clew", _import_milliseconds(), 50, " ms")
        report.at_most("longest reply to an agent", max(_characters(folder / "index.sqlite")) / 3, 4_000, " tokens")


class Kept:
    """All that is kept beside the index is up to date."""

    when = "with all that is kept up to date"

    def __init__(self, folder: Path) -> None:
        with QueryResources(folder / "index.sqlite") as holdings:
            holdings.refresh_caches()

    def prepare(self) -> None:
        """It stays so."""


class Changed:
    """A batch has come since anybody asked."""

    when = "after a batch"

    def __init__(self, folder: Path, runs: int) -> None:
        self._index, self._next = folder / "index.sqlite", runs + 1_000_000

    def prepare(self) -> None:
        """Let one come."""
        add_batch(self._index, self._next)
        self._next += 1_000


class Bare:
    """Nobody has asked before."""

    when = "with nothing kept"

    def __init__(self, folder: Path) -> None:
        self._index = folder / "index.sqlite"

    def prepare(self) -> None:
        """Remove what is kept."""
        for what in ("lineage", "columns", "search", "search-wal", "search-shm"):
            sidecar_path(self._index, what).unlink(missing_ok=True)


def _seconds(home: Path, command: tuple[str, ...], state: Kept | Changed | Bare) -> float:
    """Processor time of a command, at best."""
    return min(_once(home, command, state) for _ in range(_TRIES))


def _once(home: Path, command: tuple[str, ...], state: Kept | Changed | Bare) -> float:
    state.prepare()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, "-m", "clew", *command, *(() if command == ("config",) else ("--home", str(home)))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "compiled")},
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)}: {ended.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _import_milliseconds() -> float:
    """What `import clew` adds to a Python that has started."""
    code = "import time; start = time.process_time(); import clew; print(1000 * (time.process_time() - start))"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        for _ in range(_TRIES)
    ]
    return min(float(ended.stdout) for ended in runs)


def _characters(index: Path) -> list[int]:
    """How long the replies of the tools are, in words and as data together."""

    async def ask() -> list[int]:
        async with Client(create_server(index)) as client:
            found = []
            for tool, arguments in TOOLS.items():
                began = time.process_time()
                result = await client.call_tool(tool, arguments)
                if result.is_error:
                    raise SystemExit(f"{tool}: {result.content}")
                length = sum(len(getattr(part, "text", "")) for part in result.content)
                found.append(length + len(msgspec.json.encode(result.structured_content)))
                print(f"  tool {tool}: {found[-1] // 3:,} tokens, {time.process_time() - began:.2f} s")
            return found

    return asyncio.run(ask())


if __name__ == "__main__":
    main()
