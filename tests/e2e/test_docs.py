"""What the documentation shows is run, in the order of the pages, in one folder with one home: `shop`."""

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

from clew.cli.main import cli
from clew.errors import ClewError
from clew.index.store import connect_reader
from clew.lake.tables import DERIVED_TABLE_NAMES

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent
# The demo comes first; a page may go on where the one before it ended.
PAGES = ("README.md", "docs/cli.md", "docs/pipeline.md", "docs/tables.md", "docs/reports.md")
# These go on until they are told to stop: when they have said this, they are at work.
ENDLESS = {"serve": "Serving on", "mcp --http": "Serving MCP on"}
ENDING_WITH_1 = ("clew pipeline run --from bad.ndjson", "clew validate nightly.ndjson")
OMITTED = "…"


@dataclass(frozen=True)
class Example:
    """A command and what the page shows of its answer."""

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


def masked(line: str) -> str:
    """A line without what differs from run to run: times, memory, ids, widths and where the folder is."""
    line = re.sub(r"\S*(?=/shop/)", "", line)
    line = re.sub(r"\d[\d.,]* (ms|s|MB)\b|\d+%|\b[0-9a-f]{8}\b", "#", line)
    return re.sub(r" {2,}", "  ", line).strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which someone follows the pages."""
    place = tmp_path_factory.mktemp("reader")
    (place / "bad.ndjson").write_text('{"broken":\n')
    for page in PAGES:
        body = (ROOT / page).read_text(encoding="utf-8")
        for name, code in re.findall(r"[Ss]ave this as `(\S+)`.*?```(?:python|json)\n(.*?)```", body, re.DOTALL):
            (place / name).write_text(code)
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def called(command: str) -> tuple[int, str]:
    """Exit code and answer of a command, in this process: Spark then starts once for all of them."""
    result = CliRunner().invoke(cli, shlex.split(command)[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if not isinstance(result.exception, ClewError):
            raise result.exception
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.stdout


def stopped(command: str, at_work: str) -> int:
    """Exit code of a command that is interrupted once it is at work."""
    arguments = [sys.executable, "-m", "clew", *shlex.split(command)[1:]]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if at_work in line:
                process.send_signal(signal.SIGINT)
                break
        process.communicate()
    assert any(at_work in line for line in said), said
    return process.returncode


def stopped_stream(command: str) -> int:
    """Exit code of a stream that gets SIGINT as soon as it listens for it."""
    before = signal.getsignal(signal.SIGINT)
    is_over = threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.05):
            if signal.getsignal(signal.SIGINT) is not before:
                os.kill(os.getpid(), signal.SIGINT)
                return

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    try:
        return called(command)[0]
    finally:
        is_over.set()
        watcher.join()
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def outside(command: str) -> int:
    """Exit code of a command in a process of its own, which nobody speaks to."""
    arguments = [sys.executable, "-m", "clew", *shlex.split(command)[1:]]
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, check=False).returncode


def run_example(example: Example) -> None:
    command = example.command
    at_work = next((words for start, words in ENDLESS.items() if command.startswith(f"clew {start}")), None)
    if at_work is not None:
        assert stopped(command, at_work) in {0, 130}
    elif command.startswith("clew pipeline stream"):
        assert stopped_stream(command) == 0
    elif command.startswith(("clew mcp", "clew run")):
        assert outside(command) == 0
    else:
        code, answer = called(command)
        assert code == (1 if command.startswith(ENDING_WITH_1) else 0), answer
        answered = [masked(line) for line in answer.splitlines()]
        assert [line for line in map(masked, example.shown) if line not in {OMITTED, *answered}] == []


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}: {example.command}")
def test_an_example_does_what_the_page_shows(folder: Path, example: Example) -> None:
    assert folder.is_dir()
    run_example(example)


def test_a_rebuilt_index_is_the_one_that_was_thrown_away(folder: Path) -> None:
    before = contents(folder / "shop" / "index.sqlite")
    assert called("clew index rebuild --home shop")[0] == 0
    assert contents(folder / "shop" / "index.sqlite") == before


def contents(index: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of every table; by which batch an event came is forgotten in a rebuild."""
    with closing(connect_reader(index)) as database:
        names = [row["name"] for row in database.execute("select name from sqlite_master where type = 'table'")]
        kept = set(names) - {"meta", "batches"}
        columns = {name: "event_id" if name in {"events", "rejected"} else "*" for name in kept}
        return {
            name: sorted(map(tuple, database.execute(f"select {some} from {name}")), key=repr)
            for name, some in columns.items()
        }


@pytest.mark.parametrize("page", ["docs/pipeline.md", "docs/tables.md", "docs/reports.md"])
def test_worked_queries_print_what_the_page_shows(folder: Path, page: str) -> None:
    assert (folder / "shop" / "lake").is_dir()
    names: dict[str, object] = {}
    for (_, code), (_, shown) in queries(page):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        assert printed.getvalue() == shown


def queries(page: str) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    found = blocks(page, "python", "text")
    assert [language for language, _ in found] == ["python", "text"] * (len(found) // 2)
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize("table", DERIVED_TABLE_NAMES)
def test_every_column_of_a_derived_table_is_documented(folder: Path, table: str) -> None:
    section = (ROOT / "docs/tables.md").read_text(encoding="utf-8").split(f"\n### `{table}`\n")[1].split("\n#")[0]
    documented = dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", section, re.MULTILINE))
    written = DeltaTable(folder / "shop" / "lake" / table).schema().fields
    assert documented == {field.name: getattr(field.type, "type", "").replace("array", "list") for field in written}
