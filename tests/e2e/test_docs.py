"""Run the examples of the documentation in page order, in one folder with one data directory, `shop`."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from tests.support.paths import ROOT

from clew.cli.main import cli
from clew.errors import ClewError
from clew.index.backends.sqlite import connect_reader
from clew.lake.schemas import DERIVED_TABLE_NAMES

pytestmark = pytest.mark.spark

# In this order: a page can depend on the state that the previous one created.
PAGES = (
    "README.md",
    "docs/install.md",
    "docs/capture.md",
    "docs/send-events.md",
    "docs/operate.md",
    "docs/query.md",
    "docs/pipeline.md",
    "docs/tables.md",
    "docs/reports.md",
)
# Servers, and the message that they print when they are ready.
SERVERS = {"serve": "Serving on", "mcp --http": "Serving MCP on"}
EXPECTED_TO_FAIL = ("clew pipeline run --from bad.ndjson", "clew validate nightly.ndjson")
OMITTED = "…"


@dataclass(frozen=True)
class Example:
    """Command, and the output lines that the page shows."""

    page: str
    command: str
    shown: tuple[str, ...]


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    body = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)


def examples() -> Iterator[Example]:
    for page in PAGES:
        for _, block in blocks(page, "console"):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield Example(page, command, tuple(line for line in shown.splitlines() if line.strip()))


def mask(line: str) -> str:
    """Mask values that differ between runs: times, memory, ids, column widths and the parent folder."""
    line = re.sub(r"\S*(?=/shop/)", "", line)
    line = re.sub(r"\d[\d.,]* (ms|s|MB)\b|\d+%|\b[0-9a-f]{8}\b", "#", line)
    return re.sub(r" {2,}", "  ", line).strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Working directory with the files that the pages ask for."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "bad.ndjson").write_text('{"broken":\n')
    for page in PAGES:
        body = (ROOT / page).read_text(encoding="utf-8")
        for name, code in re.findall(r"[Ss]ave this as `(\S+)`.*?```(?:python|json)\n(.*?)```", body, re.DOTALL):
            (folder / name).write_text(code)
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(autouse=True)
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the folder of the reader the project: notebooks have no path in their names."""
    monkeypatch.setenv("CLEW_PROJECT", str(folder))


def invoke_cli(command: str) -> tuple[int, str]:
    """Run a command in this process, so that Spark starts once; return exit code and output."""
    result = CliRunner().invoke(cli, shlex.split(command)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if not isinstance(result.exception, ClewError):
            raise result.exception
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.stdout


def run_server(command: str, ready_message: str) -> int:
    """Start a server, interrupt it when it is ready, and return the exit code."""
    arguments = [sys.executable, "-m", "clew", *shlex.split(command)[1:]]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ready_message in line:
                process.send_signal(signal.SIGINT)
                break
        process.communicate()
    assert any(ready_message in line for line in lines), lines
    return process.returncode


def run_stream(command: str) -> int:
    """Run a stream, send SIGINT when its handler is installed, and return the exit code."""
    before = signal.getsignal(signal.SIGINT)
    is_finished = threading.Event()

    def interrupt() -> None:
        while not is_finished.wait(0.05):
            if signal.getsignal(signal.SIGINT) is not before:
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        return invoke_cli(command)[0]
    finally:
        is_finished.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run_process(command: str) -> int:
    """Run a command in a new process without stdin; return the exit code."""
    arguments = [sys.executable, "-m", "clew", *shlex.split(command)[1:]]
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, check=False).returncode


def run_example(example: Example) -> None:
    command = example.command
    ready_message = next((message for start, message in SERVERS.items() if command.startswith(f"clew {start}")), None)
    if ready_message is not None:
        assert run_server(command, ready_message) in {0, 130}
    elif command.startswith("clew pipeline stream"):
        assert run_stream(command) == 0
    elif command.startswith(("clew mcp", "clew run ")):
        assert run_process(command) == 0
    else:
        code, output = invoke_cli(command)
        assert code == (1 if command.startswith(EXPECTED_TO_FAIL) else 0), output
        lines = [mask(line) for line in output.splitlines()]
        assert [line for line in map(mask, example.shown) if line not in {OMITTED, *lines}] == []


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}: {example.command}")
def test_example_prints_what_the_page_shows(folder: Path, example: Example) -> None:
    assert folder.is_dir()
    run_example(example)


def test_rebuilt_index_is_equal(folder: Path) -> None:
    before = contents(folder / "shop" / "index.sqlite")
    assert invoke_cli("clew index rebuild --home shop")[0] == 0
    assert contents(folder / "shop" / "index.sqlite") == before


def contents(index: Path) -> dict[str, list[tuple[object, ...]]]:
    """Rows of every table. A rebuild does not restore the batch of an event."""
    with closing(connect_reader(index)) as database:
        names = [row["name"] for row in database.execute("select name from sqlite_master where type = 'table'")]
        tables = set(names) - {"meta", "batches"}
        columns = {name: "event_id" if name in {"events", "rejected"} else "*" for name in tables}
        return {
            name: sorted(map(tuple, database.execute(f"select {selected} from {name}")), key=repr)
            for name, selected in columns.items()
        }


@pytest.mark.parametrize("page", ["docs/pipeline.md", "docs/tables.md", "docs/reports.md"])
def test_snippet_prints_what_the_page_shows(folder: Path, page: str) -> None:
    assert (folder / "shop" / "lake").is_dir()
    names: dict[str, object] = {}
    for (_, code), (_, shown) in queries(page):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        assert printed.getvalue() == shown


def queries(page: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    snippets = blocks(page, "python", "text")
    assert [language for language, _ in snippets] == ["python", "text"] * (len(snippets) // 2)
    return list(zip(snippets[::2], snippets[1::2], strict=True))


@pytest.mark.parametrize("table", DERIVED_TABLE_NAMES)
def test_every_column_of_a_derived_table_is_documented(folder: Path, table: str) -> None:
    section = (ROOT / "docs/tables.md").read_text(encoding="utf-8").split(f"\n### `{table}`\n")[1].split("\n#")[0]
    documented = dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", section, re.MULTILINE))
    written = DeltaTable(folder / "shop" / "lake" / table).schema().fields
    assert documented == {field.name: getattr(field.type, "type", "").replace("array", "list") for field in written}
