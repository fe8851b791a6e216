"""Tests of run traversal: matching by version and by time, and roll-up to parent runs."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.traversal import traverse_runs
from clew.query.names import UnknownNameError


def distances(
    scenario: Any, resources: QueryResources, run: str, direction: Any = "upstream", **options: Any
) -> dict[str, int]:
    names = {
        scenario.run_id(name): name for name in ("load 1", "load 2", "total 1", "total 2", "app", "report", "lost")
    }
    with resources.reader() as index:
        result = traverse_runs(index, scenario.run_id(run), direction, **options)
    return {names[node.run.run_uuid]: node.distance for node in result.runs}


@pytest.fixture
def runs(scenario: Any) -> Any:
    scenario.run("load", "raw", "orders", run="load 1", minute=1)
    scenario.run("total", "orders", "totals", run="total 1", minute=2)
    scenario.run("load", "raw", "orders", run="load 2", minute=3)
    scenario.run("load", "raw", "orders", run="lost", minute=4, kind="FAIL")
    scenario.run("total", "orders", "totals", run="total 2", minute=5)
    scenario.index_events()
    return scenario


def test_a_run_reads_the_latest_write_before_it(runs: Any, resources: QueryResources) -> None:
    assert distances(runs, resources, "total 1") == {"total 1": 0, "load 1": -1}
    assert distances(runs, resources, "total 2") == {"total 2": 0, "load 2": -1}


def test_downstream_ends_at_the_next_write(runs: Any, resources: QueryResources) -> None:
    assert distances(runs, resources, "load 1", "downstream") == {"load 1": 0, "total 1": 1}
    assert distances(runs, resources, "load 2", "both") == {"load 2": 0, "total 2": 1}


def test_a_named_version_has_priority_over_times(scenario: Any, resources: QueryResources) -> None:
    for number, minute in (("1", 1), ("2", 2)):
        version = {"orders": {"version": {"datasetVersion": number}}}
        scenario.run("load", "", "orders", run=f"load {number}", minute=minute, dataset_facets=version)
    first = {"orders": {"version": {"datasetVersion": "1"}}}
    scenario.run("total", "orders", "totals", run="total 1", minute=3, dataset_facets=first)
    scenario.index_events()
    assert distances(scenario, resources, "total 1") == {"total 1": 0, "load 1": -1}


def test_rolls_up_child_runs(scenario: Any, resources: QueryResources) -> None:
    scenario.run("app", run="app", minute=0)
    scenario.run("load", "raw", "orders", run="load 1", parent="app", minute=1)
    scenario.run("total", "orders", "totals", run="total 1", parent="app", minute=2)
    scenario.run("report", "totals", "page", run="report", minute=3)
    scenario.index_events()
    assert distances(scenario, resources, "report") == {"report": 0, "total 1": -1, "load 1": -2}
    assert distances(scenario, resources, "report", roll_up="parent") == {"report": 0, "app": -1}
    assert distances(scenario, resources, "app", "downstream")["report"] == 1


def test_limits_runs_and_rejects_an_unknown_run(runs: Any, resources: QueryResources) -> None:
    assert distances(runs, resources, "total 2", limit=1) == {"total 2": 0}
    with resources.reader() as index, pytest.raises(UnknownNameError):
        traverse_runs(index, "no such run")
