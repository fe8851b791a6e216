"""`clew runs`: the newest, the failed, the slow."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.events.openlineage import decode
from clew.index.observer import Observer
from clew.index.sink import IndexSink

NOW = datetime.now(UTC).replace(microsecond=0)
# Job, when it began, how long it took in seconds, how it ended.
RUNS = [("load", 50, 60, "COMPLETE"), ("clean", 30, 600, "FAIL"), ("mail", 10, 5, "ABORT"), ("late", 1, None, None)]


def event(job: str, kind: str, at: datetime) -> dict[str, Any]:
    error = {"errorMessage": {"message": f"no disk\nfor {job}", "programmingLanguage": "PYTHON"}}
    return {
        "eventType": kind,
        "eventTime": at.isoformat(),
        "run": {"runId": f"run-of-{job}", "facets": error if kind == "FAIL" else {}},
        "job": {"namespace": "nightly", "name": job},
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    observer = Observer()
    events = []
    for job, hours, seconds, end in RUNS:
        began = NOW - timedelta(hours=hours)
        events.append(event(job, "START", began))
        if end is not None and seconds is not None:
            events.append(event(job, end, began + timedelta(seconds=seconds)))
    for seq, one in enumerate(events):
        observer.note(decode(json.dumps(one).encode()), f"{seq:032x}", seq)
    with IndexSink(folder / "index.sqlite") as sink:
        sink.apply("batch/0", observer.changes())
    return folder


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["runs", *arguments, "--home", str(home)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        ((), ["late", "mail", "clean", "load"]),
        (("--limit", "2"), ["late", "mail"]),
        (("--failed",), ["mail", "clean"]),
        (("--slow",), ["clean", "load", "mail"]),
        (("--slow", "--limit", "1"), ["clean"]),
        (("--since", "36h"), ["late", "mail", "clean"]),
        (("--failed", "--since", "24h"), ["mail"]),
    ],
)
def test_which_runs_are_listed(arguments: tuple[str, ...], jobs: list[str], home: Path) -> None:
    found = json.loads(invoke(home, *arguments, "--json").stdout)
    assert [run["job_name"] for run in found] == jobs


def test_a_run_is_told_in_a_line(home: Path) -> None:
    title, line = invoke(home, "--slow", "--limit", "1").stdout.splitlines()
    assert title.split() == ["started", "state", "took", "job", "run", "error"]
    assert line.split() == [
        *f"{NOW - timedelta(hours=30):%Y-%m-%d %H:%M:%S}".split(),
        "failed",
        "10",
        "min",
        "0",
        "s",
        "clean",
        "run-of-clean",
        "no",
        "disk",
    ]


def test_a_notebook_is_one_run(orders: Any) -> None:
    (run,) = json.loads(invoke(orders.index.parent, "--json").stdout)
    assert (run["session_id"], run["job_name"], run["state"]) == ("aaaa1111", "orders", "FAILED")


def test_nothing_to_list_is_said(home: Path) -> None:
    ended = invoke(home, "--failed", "--since", "1h")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "There are no such runs.\n")
