"""Tests of lint warnings about events that are valid by schema."""

from __future__ import annotations

from typing import Any

import pytest

from clew.events.validation import RunPairingCheck, lint_event

RUN = "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"
SPEC = "https://openlineage.io/spec/facets/1-0-0/X.json"
SCHEMAS = "https://github.com/acme/lineage"


def lint(event: dict[str, Any]) -> list[tuple[str, str]]:
    return [(rule, path) for rule, path, _ in lint_event(event)]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"run": {"runId": RUN}}, []),
        ({"run": {"runId": "nightly-7"}}, [("run-id", "/run/runId")]),
        ({"run": {"facets": {"parent": {}, "acme_cost": {}}}}, []),
        ({"run": {"facets": {"cost": {}}}}, [("facet-prefix", "/run/facets/cost")]),
        ({"inputs": [{}, {"inputFacets": {"seen": 1}}]}, [("facet-prefix", "/inputs/1/inputFacets/seen")]),
        ({"dataset": {"facets": {"columnMetrics": {}, "processing_engine": {}}}}, []),
        (
            {"job": {"facets": {"sql": {"_schemaURL": f"{SCHEMAS}/blob/main/sql.json"}}}},
            [("schema-url", "/job/facets/sql/_schemaURL")],
        ),
        ({"schemaURL": f"{SCHEMAS}/blob/master/OpenLineage.json"}, [("schema-url", "/schemaURL")]),
        ({"run": [], "job": "x", "inputs": {}, "outputs": [3], "schemaURL": 7}, []),
    ],
)
def test_lint_event(event: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert lint(event) == expected


@pytest.mark.parametrize(
    ("url", "is_on_branch"),
    [
        (SPEC, False),
        (f"{SCHEMAS}/blob/main/x.json", True),
        (f"{SCHEMAS}/tree/develop/x.json", True),
        (f"{SCHEMAS}/blob/refs/heads/1.2.3/x.json", True),
        (f"{SCHEMAS}/blob/refs/tags/stable/x.json", False),
        (f"{SCHEMAS}/blob/v1/x.json", False),
        (f"{SCHEMAS}/blob/release-1.2/x.json", False),
        (f"{SCHEMAS}/blob/9f1c2ab/x.json", False),
        ("https://raw.githubusercontent.com/acme/lineage/main/x.json", True),
        ("https://raw.githubusercontent.com/acme/lineage/1.54.0/x.json", False),
        ("https://gitlab.example.com/acme/lineage/-/raw/main/x.json", True),
        ("https://example.com/main/x.json", False),
    ],
)
def test_warns_about_schema_urls_on_a_branch(url: str, is_on_branch: bool) -> None:
    assert bool(lint({"schemaURL": url})) is is_on_branch


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        (["START", "COMPLETE"], []),
        (["COMPLETE", "START"], []),
        (["START", "RUNNING"], ["run-end"]),
        (["FAIL"], ["run-start"]),
        ([None, "OTHER"], ["run-start", "run-end"]),
    ],
)
def test_warns_about_runs_without_start_or_end(kinds: list[str | None], missing: list[str]) -> None:
    check = RunPairingCheck()
    check.add({"job": {}})
    for kind in kinds:
        check.add({"run": {"runId": RUN}, "eventType": kind})
    assert [(rule, path) for rule, path, _ in check.warnings()] == [(rule, RUN) for rule in missing]
