"""Tests of OpenLineage validation: the built-in core schema equals the official schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UsageError
from clew.events.validation import OpenLineageSpec

TIME = "2026-11-15T14:02:11Z"
URL = "https://example.com/x"
BASE = {"eventTime": TIME, "producer": URL, "schemaURL": URL}
RUN: dict[str, Any] = {"runId": "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"}
IDENTIFIER: dict[str, Any] = {"namespace": "n", "name": "x"}
FACET = {"_producer": URL, "_schemaURL": URL}

EVENTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "run event": ({**BASE, "run": RUN, "job": IDENTIFIER, "inputs": [IDENTIFIER]}, []),
    "job event": ({**BASE, "job": IDENTIFIER, "outputs": [{**IDENTIFIER, "outputFacets": {"a_b": FACET}}]}, []),
    "dataset event": ({**BASE, "dataset": {**IDENTIFIER, "facets": {"a_b": {**FACET, "_deleted": True}}}}, []),
    "empty": ({}, ["/"]),
    "no job": ({**BASE, "run": RUN}, ["/"]),
    "run is null": ({**BASE, "run": None, "job": IDENTIFIER}, ["/run"]),
    "run id is not a UUID": ({**BASE, "run": {"runId": "1"}, "job": IDENTIFIER}, ["/run/runId"]),
    "invalid time": ({**BASE, "eventTime": "noon", "run": RUN, "job": IDENTIFIER}, ["/eventTime"]),
    "invalid event type": ({**BASE, "eventType": "DONE", "run": RUN, "job": IDENTIFIER}, ["/eventType"]),
    "no namespace": ({**BASE, "run": RUN, "job": IDENTIFIER, "inputs": [{"name": "x"}]}, ["/inputs/0"]),
    "outputs are not a list": ({**BASE, "run": RUN, "job": IDENTIFIER, "outputs": None}, ["/outputs"]),
    "facet without _producer": (
        {**BASE, "run": {**RUN, "facets": {"a_b": {}}}, "job": IDENTIFIER},
        ["/run/facets/a_b"],
    ),
    "facet is a string": ({**BASE, "job": {**IDENTIFIER, "facets": {"a_b": "x"}}}, ["/job/facets/a_b"]),
    "_deleted is a string": (
        {**BASE, "job": {**IDENTIFIER, "facets": {"a_b": {**FACET, "_deleted": "x"}}}},
        ["/job/facets/a_b/_deleted"],
    ),
}


@pytest.mark.parametrize(("event", "paths"), EVENTS.values(), ids=EVENTS)
def test_core_violations(event: dict[str, Any], paths: list[str]) -> None:
    assert sorted({violation.path for violation in OpenLineageSpec.core().violations(event)}) == paths


@pytest.fixture(scope="module")
def spec_folder(shared: Path) -> Path:
    return shared / "openlineage-spec"


def load_corpus(shared: Path) -> list[Any]:
    lines = (line for path in sorted((shared / "corpus").rglob("*.jsonl")) for line in path.read_text().splitlines())
    return [json.loads(line) for line in lines]


def test_core_equals_the_official_schema(shared: Path, spec_folder: Path) -> None:
    official_spec = OpenLineageSpec.from_folder(spec_folder)
    # For a null run the official schema reports the event, the core schema the run.
    events = [event for name, (event, _) in EVENTS.items() if name != "run is null"] + load_corpus(shared)
    assert len(events) > 200
    for event in events:
        assert {violation.path for violation in OpenLineageSpec.core().violations(event)} == {
            violation.path for violation in official_spec.violations(event)
        }


@pytest.mark.parametrize(
    ("owner", "facet", "path"),
    [
        ("run", {"nominalTime": FACET}, "/run/facets/nominalTime"),
        ("job", {"sql": {**FACET, "query": 3}}, "/job/facets/sql/query"),
        ("output", {"schema": {**FACET, "fields": 3}}, "/outputs/0/facets/schema/fields"),
        ("output", {"outputStatistics": {**FACET, "rowCount": "x"}}, None),
        ("run", {"acme_cost": {**FACET, "fields": 3}}, None),
    ],
)
def test_standard_facets_are_validated_against_the_official_spec(
    owner: str, facet: dict[str, Any], path: str | None, spec_folder: Path
) -> None:
    def facets(entity: str) -> dict[str, Any]:
        return {"facets": facet if entity == owner else {}}

    event: dict[str, Any] = {
        **BASE,
        "run": {**RUN, **facets("run")},
        "job": {**IDENTIFIER, **facets("job")},
        "outputs": [{**IDENTIFIER, **facets("output")}],
    }
    assert [violation.path for violation in OpenLineageSpec.from_folder(spec_folder).violations(event)] == (
        [path] if path else []
    )


def test_rejects_a_folder_without_the_spec(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no OpenLineage\.json in"):
        OpenLineageSpec.from_folder(tmp_path)
    (tmp_path / "OpenLineage.json").write_text("{")
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        OpenLineageSpec.from_folder(tmp_path)
