"""Tests of the pages of runs, jobs and datasets."""

from __future__ import annotations

from typing import Any

import msgspec

from clew.query.context import QueryResources
from clew.query.pages.entities import build_run_view

ASSERTIONS = {"dataQualityAssertions": {"assertions": [{"assertion": "not_null", "success": False, "column": "id"}]}}
STATISTICS = {"outputStatistics": {"rowCount": 3}}


def test_run_view_has_input_and_output_facets(scenario: Any, resources: QueryResources) -> None:
    run_id = scenario.run("check", "orders versioned", "out")
    unversioned, versioned = scenario.events[-1]["inputs"]
    unversioned["inputFacets"] = versioned["inputFacets"] = ASSERTIONS
    versioned["facets"]["version"] = {"datasetVersion": "7"}
    scenario.events[-1]["outputs"][0]["outputFacets"] = STATISTICS
    scenario.index_events()
    with resources.reader() as index:
        view = build_run_view(index, run_id)
    inputs = {item.dataset.name: (item.version, _decode(item.facets)) for item in view.inputs}
    assert inputs == {"orders": (None, ASSERTIONS), "versioned": ("7", ASSERTIONS)}
    assert [_decode(item.facets) for item in view.outputs] == [STATISTICS]


def _decode(facets: dict[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: msgspec.json.decode(facet) for name, facet in facets.items()}
