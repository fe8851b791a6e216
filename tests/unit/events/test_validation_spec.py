"""OpenLineage's rules: clew's own words for the core say what the official schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UsageError
from clew.events.validation import OpenLineageSpec

TIME = "2026-11-15T14:02:11Z"
ADDRESS = "https://example.com/x"
BASE = {"eventTime": TIME, "producer": ADDRESS, "schemaURL": ADDRESS}
RUN: dict[str, Any] = {"runId": "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"}
NAMED: dict[str, Any] = {"namespace": "n", "name": "x"}
FACET = {"_producer": ADDRESS, "_schemaURL": ADDRESS}

EVENTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a run": ({**BASE, "run": RUN, "job": NAMED, "inputs": [NAMED]}, []),
    "a job": ({**BASE, "job": NAMED, "outputs": [{**NAMED, "outputFacets": {"a_b": FACET}}]}, []),
    "a dataset": ({**BASE, "dataset": {**NAMED, "facets": {"a_b": {**FACET, "_deleted": True}}}}, []),
    "nothing": ({}, ["/"]),
    "no job": ({**BASE, "run": RUN}, ["/"]),
    "a run that is null": ({**BASE, "run": None, "job": NAMED}, ["/run"]),
    "no uuid": ({**BASE, "run": {"runId": "1"}, "job": NAMED}, ["/run/runId"]),
    "no time": ({**BASE, "eventTime": "noon", "run": RUN, "job": NAMED}, ["/eventTime"]),
    "no kind": ({**BASE, "eventType": "DONE", "run": RUN, "job": NAMED}, ["/eventType"]),
    "no name": ({**BASE, "run": RUN, "job": NAMED, "inputs": [{"name": "x"}]}, ["/inputs/0"]),
    "no list": ({**BASE, "run": RUN, "job": NAMED, "outputs": None}, ["/outputs"]),
    "a bare facet": ({**BASE, "run": {**RUN, "facets": {"a_b": {}}}, "job": NAMED}, ["/run/facets/a_b"]),
    "a facet that is text": ({**BASE, "job": {**NAMED, "facets": {"a_b": "x"}}}, ["/job/facets/a_b"]),
    "a deletion that is text": (
        {**BASE, "job": {**NAMED, "facets": {"a_b": {**FACET, "_deleted": "x"}}}},
        ["/job/facets/a_b/_deleted"],
    ),
}


@pytest.mark.parametrize(("event", "places"), EVENTS.values(), ids=EVENTS)
def test_the_core_finds_what_is_wrong(event: dict[str, Any], places: list[str]) -> None:
    assert sorted({fault.path for fault in OpenLineageSpec.core().violations(event)}) == places


@pytest.fixture(scope="module")
def official(shared: Path) -> Path:
    return shared / "openlineage-spec"


def public_events(shared: Path) -> list[Any]:
    lines = (line for path in sorted((shared / "corpus").rglob("*.jsonl")) for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines]


def test_the_core_says_what_the_official_schema_says(shared: Path, official: Path) -> None:
    schema = json.loads((official / "OpenLineage.json").read_text())
    theirs = OpenLineageSpec({"OpenLineage.json": schema}, schema["$id"])
    # How a run that is null is refused is told otherwise: the whole event, or its run.
    events = [event for name, (event, _) in EVENTS.items() if name != "a run that is null"] + public_events(shared)
    assert len(events) > 200
    for event in events:
        assert {fault.path for fault in OpenLineageSpec.core().violations(event)} == {
            fault.path for fault in theirs.violations(event)
        }


@pytest.mark.parametrize(
    ("where", "facet", "path"),
    [
        ("run", {"nominalTime": FACET}, "/run/facets/nominalTime"),
        ("job", {"sql": {**FACET, "query": 3}}, "/job/facets/sql/query"),
        ("output", {"schema": {**FACET, "fields": 3}}, "/outputs/0/facets/schema/fields"),
        ("output", {"outputStatistics": {**FACET, "rowCount": "x"}}, None),
        ("run", {"acme_cost": {**FACET, "fields": 3}}, None),
    ],
)
def test_standard_facets_are_held_against_the_official_spec(
    where: str, facet: dict[str, Any], path: str | None, official: Path
) -> None:
    def facets(place: str) -> dict[str, Any]:
        return {"facets": facet if place == where else {}}

    event: dict[str, Any] = {
        **BASE,
        "run": {**RUN, **facets("run")},
        "job": {**NAMED, **facets("job")},
        "outputs": [{**NAMED, **facets("output")}],
    }
    assert [fault.path for fault in OpenLineageSpec.from_folder(official).violations(event)] == ([path] if path else [])


def test_a_folder_without_the_spec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no OpenLineage\.json in"):
        OpenLineageSpec.from_folder(tmp_path)
    (tmp_path / "OpenLineage.json").write_text("{")
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        OpenLineageSpec.from_folder(tmp_path)
