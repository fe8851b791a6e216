"""Tests of the column sources on the dataset page: the latest assertion of each job counts."""

from __future__ import annotations

from typing import Any

from clew.index.queries.reader import IndexReader
from clew.query.pages.entities import DatasetView, build_dataset_view
from clew.query.pages.lists import EntityName


def dataset_view(scenario: Any, name: str) -> DatasetView:
    with IndexReader(scenario.index_events()) as index:
        return build_dataset_view(index, EntityName("db", name))


def sources_by_column(view: DatasetView) -> dict[str, set[str]]:
    return {
        column.name: {f"{source.dataset.name}.{source.column}" for source in column.sources} for column in view.columns
    }


def test_the_sources_of_all_writers_count(scenario: Any) -> None:
    scenario.run("first", "a", "out", columns={"out": {"x": "a.x", "": "a.day!FILTER"}})
    scenario.run("second", "b", "out", columns={"out": {"x": "b.x", "y": "b.y", "": "b.day!FILTER"}})
    view = dataset_view(scenario, "out")
    assert sources_by_column(view) == {"x": {"a.x", "b.x"}, "y": {"b.y"}}
    assert {source.dataset.name for source in view.dataset_level_sources} == {"a", "b"}


def test_a_later_run_of_a_job_replaces_its_sources(scenario: Any) -> None:
    scenario.run("build", "a", "out", columns={"out": {"x": "a.x"}})
    scenario.run("build", "b", "out", columns={"out": {"x": "b.x"}})
    assert sources_by_column(dataset_view(scenario, "out")) == {"x": {"b.x"}}


def test_a_job_replaces_its_sources_under_another_name_of_the_dataset(scenario: Any) -> None:
    scenario.run("build", "a", "path", columns={"path": {"x": "a.x"}})
    scenario.run("build", "b", "table", columns={"table": {"x": "b.x"}})
    scenario.run("append", "c", "table", columns={"table": {"x": "c.x"}})
    scenario.symlink("path", "table")
    assert sources_by_column(dataset_view(scenario, "path")) == {"x": {"b.x", "c.x"}}
    assert sources_by_column(dataset_view(scenario, "table")) == {"x": {"b.x", "c.x"}}


def test_retracted_lineage_has_no_sources(scenario: Any) -> None:
    scenario.run("build", "a", "out", columns={"out": {"x": "a.x"}}, run="same")
    deleted = {"out": {"columnLineage": {"_deleted": True}}}
    scenario.run("build", "a", "out", dataset_facets=deleted, run="same")
    assert sources_by_column(dataset_view(scenario, "out")) == {}
