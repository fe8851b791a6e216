"""Walks over runs: who had written what a run read, by version and by time; children told as their parents."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.traversal import traverse_runs
from clew.query.names import UnknownNameError


def walked(world: Any, holdings: QueryResources, run: str, direction: Any = "upstream", **how: Any) -> dict[str, int]:
    names = {world.run_id(name): name for name in ("load 1", "load 2", "total 1", "total 2", "app", "report", "lost")}
    with holdings.reader() as index:
        found = traverse_runs(index, world.run_id(run), direction, **how)
    return {names[one.run_uuid]: one.distance for one in found.runs}


@pytest.fixture
def runs(world: Any) -> Any:
    world.run("load", "raw", "orders", run="load 1", minute=1)
    world.run("total", "orders", "totals", run="total 1", minute=2)
    world.run("load", "raw", "orders", run="load 2", minute=3)
    world.run("load", "raw", "orders", run="lost", minute=4, kind="FAIL")
    world.run("total", "orders", "totals", run="total 2", minute=5)
    world.tell()
    return world


def test_a_run_read_what_was_written_last_before_it(runs: Any, holdings: QueryResources) -> None:
    assert walked(runs, holdings, "total 1") == {"total 1": 0, "load 1": -1}
    assert walked(runs, holdings, "total 2") == {"total 2": 0, "load 2": -1}


def test_who_read_it_before_it_was_written_anew(runs: Any, holdings: QueryResources) -> None:
    assert walked(runs, holdings, "load 1", "downstream") == {"load 1": 0, "total 1": 1}
    assert walked(runs, holdings, "load 2", "both") == {"load 2": 0, "total 2": 1}


def test_a_version_that_is_named_goes_before_times(world: Any, holdings: QueryResources) -> None:
    for number, minute in (("1", 1), ("2", 2)):
        version = {"orders": {"version": {"datasetVersion": number}}}
        world.run("load", "", "orders", run=f"load {number}", minute=minute, dataset_facets=version)
    first = {"orders": {"version": {"datasetVersion": "1"}}}
    world.run("total", "orders", "totals", run="total 1", minute=3, dataset_facets=first)
    world.tell()
    assert walked(world, holdings, "total 1") == {"total 1": 0, "load 1": -1}


def test_children_are_told_as_their_parent(world: Any, holdings: QueryResources) -> None:
    world.run("app", run="app", minute=0)
    world.run("load", "raw", "orders", run="load 1", parent="app", minute=1)
    world.run("total", "orders", "totals", run="total 1", parent="app", minute=2)
    world.run("report", "totals", "page", run="report", minute=3)
    world.tell()
    assert walked(world, holdings, "report") == {"report": 0, "total 1": -1, "load 1": -2}
    assert walked(world, holdings, "report", roll_up="parent") == {"report": 0, "app": -1}
    assert walked(world, holdings, "app", "downstream")["report"] == 1


def test_bounds_and_unknown_runs(runs: Any, holdings: QueryResources) -> None:
    assert walked(runs, holdings, "total 2", limit=1) == {"total 2": 0}
    with holdings.reader() as index, pytest.raises(UnknownNameError):
        traverse_runs(index, "no such run")
