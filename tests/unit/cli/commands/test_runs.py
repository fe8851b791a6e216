"""Tests of `clew runs`: recent, failed and slow runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

NOW = datetime.now(UTC).replace(microsecond=0)
# Job, hours since its start, duration in seconds, final event type.
RUNS = [("load", 50, 60, "COMPLETE"), ("clean", 30, 600, "FAIL"), ("mail", 10, 5, "ABORT"), ("late", 1, None, None)]


def event(job: str, event_type: str, event_time: datetime) -> dict[str, Any]:
    error = {"errorMessage": {"message": f"no disk\nfor {job}", "programmingLanguage": "PYTHON"}}
    return {
        "eventType": event_type,
        "eventTime": event_time.isoformat(),
        "run": {"runId": f"run-of-{job}", "facets": error if event_type == "FAIL" else {}},
        "job": {"namespace": "nightly", "name": job},
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    extractor = ChangeExtractor()
    events = []
    for job, hours, seconds, end in RUNS:
        started_at = NOW - timedelta(hours=hours)
        events.append(event(job, "START", started_at))
        if end is not None and seconds is not None:
            events.append(event(job, end, started_at + timedelta(seconds=seconds)))
    for seq, body in enumerate(events):
        extractor.add(decode_openlineage(json.dumps(body).encode()), f"{seq:032x}", seq)
    with IndexWriter(folder / "index.sqlite") as index:
        index.apply("batch/0", extractor.changes())
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
def test_options_select_runs(arguments: tuple[str, ...], jobs: list[str], home: Path) -> None:
    runs = json.loads(invoke(home, *arguments, "--json").stdout)
    assert [run["job_name"] for run in runs] == jobs


def test_run_is_printed_as_table_row(home: Path) -> None:
    header, line = invoke(home, "--slow", "--limit", "1").stdout.splitlines()
    assert header.split() == ["started", "state", "duration", "job", "run", "error"]
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


def test_notebook_session_is_listed_as_one_run(orders: Any) -> None:
    (run,) = json.loads(invoke(orders.index.parent, "--json").stdout)
    assert (run["session_id"], run["job_name"], run["state"]) == ("aaaa1111", "orders", "FAILED")


def test_empty_list_prints_message(home: Path) -> None:
    result = invoke(home, "--failed", "--since", "1h")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No runs found.\n")
