"""Test of the lineage of the pipeline itself: visible after the same run, and without a feedback loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from clew.cli.main import cli
from clew.index.queries.reader import IndexReader

pytestmark = pytest.mark.spark


def run_pipeline(home: Path, *options: str) -> dict[str, int]:
    result = CliRunner().invoke(cli, ["pipeline", "run", "--home", str(home), "--json", *options])
    assert result.exit_code == 0, result.output
    stats: dict[str, int] = json.loads(result.stdout)
    return stats


def test_runs_of_the_pipeline_are_visible_and_cause_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEW_OWN_LINEAGE", raising=False)
    home, events = tmp_path / "home", tmp_path / "events.ndjson"
    event = {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T10:00:00Z",
        "producer": "https://example.org",
        "run": {"runId": "0195486f-8a00-7000-8000-000000000001"},
        "job": {"namespace": "shop", "name": "load"},
    }
    events.write_text(json.dumps(event))
    assert run_pipeline(home, "--from", str(events), "--emit-own-lineage")["events"] == 1
    assert run_pipeline(home, "--emit-own-lineage")["events"] == 0
    with IndexReader(home / "index.sqlite") as index:
        (run,) = index.run_records("where job_namespace = 'clew'")
        assert (run.job_name, run.state) == ("pipeline.run", "COMPLETED")
        rows = {
            (item.direction, item.name): item.row_count
            for item in index.io_of([run.run_uuid], with_counts=True)[run.run_uuid]
        }
    assert rows["OUTPUT", f"{home}/lake/lineage_events"] == 1
    assert ("INPUT", f"{home}/log") in rows
