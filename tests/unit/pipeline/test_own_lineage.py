"""Tests of the OpenLineage events of the pipeline about itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError
from clew.events.openlineage import validate_openlineage
from clew.lake.lake import Lake
from clew.pipeline.checkpoint import BatchRecord
from clew.pipeline.own_lineage import OwnLineage, _identity


def batch(events: int, **rows: int) -> BatchRecord:
    return BatchRecord("app", 0, 0, 0.1, events, 0, 0, rows, 0)


def read_events(home: DataDir) -> list[dict[str, Any]]:
    path = home.streams / "clew-pipeline" / "marimo_lineage_events.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_run_with_the_tables_that_it_wrote(home: DataDir) -> None:
    Lake(home.lake).create_or_validate()
    own = OwnLineage(home, "run")
    own(batch(3, lineage_events=3, run_facets=4))
    own(batch(2, lineage_events=2, job_facets=0))
    assert own.emit()
    start, complete = read_events(home)
    for event in (start, complete):
        validate_openlineage(json.dumps(event).encode())
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["eventTime"] <= complete["eventTime"]
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("clew", "pipeline.run")
    rows = {item["name"]: item["outputFacets"]["outputStatistics"]["rowCount"] for item in complete["outputs"]}
    assert rows == {f"{home.lake}/lineage_events": 5, f"{home.lake}/run_facets": 4}
    fields = {field["name"]: field["type"] for field in complete["outputs"][0]["facets"]["schema"]["fields"]}
    assert fields["event_id"] == "string"
    assert [item["name"] for item in complete["inputs"]] == [str(home.log)]


def test_a_run_without_events_is_not_reported(home: DataDir) -> None:
    own = OwnLineage(home, "run")
    own(batch(0))
    assert not own.emit()
    assert read_events(home) == []


def test_a_failed_run(home: DataDir) -> None:
    assert OwnLineage(home, "run").emit(ClewError("Disk full."))
    *_, failed = read_events(home)
    assert (failed["eventType"], failed["run"]["facets"]["errorMessage"]["message"]) == ("FAIL", "Disk full.")


def test_a_stream_reports_every_few_minutes_and_its_own_events_cause_no_others(home: DataDir) -> None:
    clock = Clock()
    own = OwnLineage(home, "stream", interval_seconds=60, clock=clock)
    own(batch(5, lineage_events=5))
    assert read_events(home) == []
    clock.now = 61
    own(batch(1, lineage_events=1))
    assert len(read_events(home)) == 2
    # The two events are ingested, in one batch or in two.
    for _ in range(2):
        clock.now += 100
        own(batch(1, lineage_events=1))
    clock.now += 100
    own(batch(0))
    assert len(read_events(home)) == 2
    own(batch(4, lineage_events=4))
    clock.now += 100
    own(batch(0))
    assert len(read_events(home)) == 4


def test_own_events_of_an_earlier_process_cause_no_others(home: DataDir) -> None:
    first = OwnLineage(home, "run")
    first(batch(1))
    assert first.emit()
    second = OwnLineage(home, "run")
    second(batch(2))
    assert not second.emit()
    third = OwnLineage(home, "run")
    third(batch(1))
    assert third.emit()


def test_own_events_beside_others(home: DataDir) -> None:
    clock = Clock()
    own = OwnLineage(home, "stream", interval_seconds=60, clock=clock)
    own(batch(1))
    clock.now = 61
    own(batch(0))
    own(batch(2 + 3, lineage_events=5))
    clock.now = 200
    own(batch(0))
    assert len(read_events(home)) == 4


@pytest.mark.parametrize(
    ("location", "identity"),
    [
        (BucketUrl("s3://bucket/lake/run_facets"), ("s3://bucket", "lake/run_facets")),
        (DataDir.find("/data/clew").lake, ("file", "/data/clew/lake")),
    ],
)
def test_names(location: Any, identity: tuple[str, str]) -> None:
    found = _identity(location)
    assert (found["namespace"], found["name"]) == identity
