"""Tests of the latest assertion of each job on a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.event_generator import Scenario, column_lineage
from tests.support.fixtures import notebook_events

from clew.index.queries.lineage import NOW, Position, all_latest_assertions, latest_assertions
from clew.index.queries.reader import IndexReader

__all__ = ["notebook_events"]


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


def sources(scenario: Scenario, *names: str, before: Position = NOW) -> set[str]:
    with IndexReader(scenario.index_events()) as index:
        found = latest_assertions(index, [("db", name) for name in names], before)
        edges = (edge for assertion in found for edge in index.asserted_edges([assertion.edge_set_id]))
        return {f"{edge.source_name}.{edge.source_column}" for edge in edges}


def test_each_job_counts_with_its_latest_assertion(scenario: Scenario) -> None:
    scenario.run("one", "", "out", columns={"out": {"x": "a.x"}})
    scenario.run("one", "", "out", columns={"out": {"x": "b.x"}})
    scenario.run("two", "", "out", columns={"out": {"x": "c.x"}})
    scenario.dataset("out", columnLineage=column_lineage({"x": "d.x"}))
    assert sources(scenario, "out") == {"b.x", "c.x", "d.x"}


def test_assertions_before_a_position(scenario: Scenario) -> None:
    scenario.run("one", "", "out", columns={"out": {"x": "a.x"}}, minute=1)
    scenario.run("one", "", "out", columns={"out": {"x": "b.x"}}, minute=3)
    scenario.run("two", "", "out", columns={"out": {"x": "c.x"}}, minute=2)
    with IndexReader(scenario.index_events()) as index:
        last = max(assertion.position for assertion in latest_assertions(index, [("db", "out")]))
    assert sources(scenario, "out", before=last) == {"a.x", "c.x"}


def test_explicit_lineage_takes_precedence_over_a_later_facet_of_the_run(scenario: Scenario) -> None:
    explicit = {"out": {"lineage": {"inputs": [{"type": "DATASET", "namespace": "db", "name": "a", "field": "x"}]}}}
    scenario.run("one", "", "out", dataset_facets=explicit, run="same", kind="START")
    scenario.run("one", "", "out", columns={"out": {"x": "b.x"}}, run="same")
    assert sources(scenario, "out") == {"a.x"}


def test_all_assertions_equal_those_of_each_dataset(scenario: Scenario) -> None:
    for number, (job, table) in enumerate([("one", "out"), ("two", "out"), ("one", "alias"), ("two", "other")]):
        scenario.run(job, "", table, columns={table: {"x": f"t{number}.x"}})
    scenario.symlink("out", "alias")
    with IndexReader(scenario.index_events()) as index:
        by_dataset = [
            *latest_assertions(index, [("db", "out"), ("db", "alias")]),
            *latest_assertions(index, [("db", "other")]),
        ]
        assert sorted(by_dataset, key=str) == sorted(all_latest_assertions(index), key=str)


def test_the_operations_of_a_notebook_count_as_one_job(notebook_events: Any) -> None:
    first, last = notebook_events.session("aaaa1111"), notebook_events.session("bbbb2222")
    first.operation("write", "out.csv", {"x": [("old.csv", "x")]})
    last.operation("write_again", "out.csv", {"x": [("new.csv", "x")]})
    last.operation("append", "out.csv", {"x": [("more.csv", "x")]})
    notebook_events.index_events()
    with IndexReader(notebook_events.index) as index:
        assertions = latest_assertions(index, [("file", "/data/out.csv")])
        edges = list(index.asserted_edges([assertion.edge_set_id for assertion in assertions]))
    assert sorted(edge.source_name for edge in edges) == ["/data/more.csv", "/data/new.csv"]
