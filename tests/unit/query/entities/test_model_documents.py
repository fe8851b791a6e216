"""Tests of dataset, job and run documents, and of diffs between runs and versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.diff import diff_runs, diff_versions
from clew.query.entities.annotations import TagAnnotation, annotation_body, annotation_event, annotation_key
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.runs import describe_job, describe_run
from clew.query.model import DatasetName
from clew.query.names import UnknownNameError


def schema_facet(**fields: str) -> dict[str, Any]:
    return {"schema": {"fields": [{"name": name, "type": kind} for name, kind in fields.items()]}}


@pytest.fixture
def builds(scenario: Any) -> Any:
    """Index two runs of a job; the second reads one more table, and writes other columns and fewer rows."""
    dataset_facets = {"out": {**schema_facet(id="int", day="date"), "documentation": {"description": "What is built"}}}
    columns = {"out": {"id": "a.id", "day": "a.day"}}
    scenario.run("build", "a", "out", run="1", kind="START", minute=1, parent="dag")
    scenario.run("build", "a", "out", run="1", minute=2, columns=columns, dataset_facets=dataset_facets, rows=10)
    dataset_facets = {"out": schema_facet(id="bigint", total="int")}
    columns = {"out": {"id": "a.id", "total": "b.price"}}
    scenario.run("build", "a b", "out", run="2", minute=5, columns=columns, dataset_facets=dataset_facets, rows=7)
    scenario.symlink("out", "alias")
    scenario.index_events()
    return scenario


def test_a_run_has_its_inputs_and_outputs(builds: Any, resources: QueryResources) -> None:
    with resources.reader() as index:
        run = describe_run(index, builds.run_id("1"))
    assert (run.state, run.duration_ms) == ("COMPLETED", 60_000)
    assert run.job == ("jobs", "build")
    assert run.parent.run_id == builds.run_id("dag")
    assert [(use.name, use.row_count) for use in run.outputs] == [("out", 10)]
    assert "parent" in run.facets


def test_a_run_known_only_as_a_parent_is_a_placeholder(builds: Any, resources: QueryResources) -> None:
    with resources.reader() as index:
        assert describe_run(index, builds.run_id("dag")).is_placeholder
        with pytest.raises(UnknownNameError):
            describe_run(index, "none")


@pytest.mark.parametrize("name", ["out", "alias"])
def test_describes_a_dataset_by_any_of_its_names(builds: Any, resources: QueryResources, name: str) -> None:
    assert builds.events
    with resources.reader() as index:
        dataset = describe_dataset(index, ("db", name))
    assert (dataset.name, dataset.description) == ("out", "What is built")
    assert [(column.name, column.type) for column in dataset.fields] == [("id", "bigint"), ("total", "int")]
    assert dataset.written_by == (("jobs", "build"),)
    assert sorted(dataset.names) == [("db", "alias"), ("db", "out")]


def test_a_job_has_its_latest_run(builds: Any, resources: QueryResources) -> None:
    with resources.reader() as index:
        job = describe_job(index, ("jobs", "build"))
        assert describe_job(index, ("jobs", "dag")).is_placeholder
    assert job.latest_run is not None
    assert job.latest_run.id == builds.run_id("2")
    assert job.reads == (("db", "a"), ("db", "b"))


def test_tags_are_those_of_producers_and_users(scenario: Any, resources: QueryResources) -> None:
    sent = {"tags": {"tags": [{"key": "PII", "field": "email"}, {"key": "gold"}]}}
    scenario.run("build", "a", "out", dataset_facets={"out": sent})

    def tags() -> list[list[tuple[str, str | None]]]:
        scenario.index_events()
        with resources.reader() as index:
            entities = describe_dataset(index, ("db", "out")), describe_job(index, ("jobs", "build"))
        return [[(tag.key, tag.field) for tag in entity.tags] for entity in entities]

    assert tags() == [[("PII", "email"), ("gold", None)], []]
    annotations = [
        (annotation_key("tags", "dataset", "db", "out"), TagAnnotation(((None, "audited"),), ((None, "gold"),))),
        (annotation_key("tags", "job", "jobs", "build"), TagAnnotation(((None, "nightly"),))),
    ]
    event = annotation_event((key, annotation_body(annotation)) for key, annotation in annotations)
    scenario.events.append(json.loads(event))
    assert tags() == [[("PII", "email"), ("audited", None)], [("nightly", None)]]


def test_diffs_inputs_and_outputs_of_two_runs(builds: Any, resources: QueryResources) -> None:
    with resources.reader() as index:
        diff = diff_runs(index, builds.run_id("1"), builds.run_id("2"))
        assert diff_runs(index, builds.run_id("1"), builds.run_id("1")).outputs.changed == ()
    assert diff.inputs.added == (DatasetName("db", "b"),)
    (output,) = diff.outputs.changed
    assert output.schema is not None
    assert (output.schema.added, output.schema.removed) == (("total",), ("day",))
    assert [(column.name, column.left, column.right) for column in output.schema.retyped] == [("id", "int", "bigint")]
    assert output.row_count is not None
    assert (output.row_count.left, output.row_count.right) == (10, 7)
    assert output.lineage is not None
    assert [edge.source.name for edge in output.lineage.added] == ["b"]
    assert diff.state is None


def test_diffs_two_versions_by_their_writing_runs(builds: Any, resources: QueryResources) -> None:
    with resources.reader() as index:
        diff = diff_versions(index, DatasetName("db", "out"))
        reversed_diff = diff_versions(index, DatasetName("db", "out"), builds.run_id("2"), builds.run_id("1"))
        with pytest.raises(UnknownNameError, match="version of out"):
            diff_versions(index, DatasetName("db", "out"), "9")
        with pytest.raises(UnknownNameError, match="nothing to compare"):
            diff_versions(index, DatasetName("db", "a"))
    assert diff.runs.left == builds.run_id("1")
    assert diff.difference.schema is not None
    assert reversed_diff.difference.schema is not None
    assert diff.difference.schema.added == reversed_diff.difference.schema.removed


def test_diffs_the_code_of_two_sessions(notebook_events: Any) -> None:
    runs = []
    for session_id, cell_name in (("aaaa1111", "load"), ("bbbb2222", "load"), ("cccc3333", "keep")):
        session = notebook_events.session(session_id)
        runs.append(session.operation(cell_name, "df@1", {}))
    notebook_events.index_events()
    with QueryResources(notebook_events.index) as resources, resources.reader() as index:
        assert diff_runs(index, runs[0], runs[1]).code == ()
        assert {cell.name for cell in diff_runs(index, runs[0], runs[2]).code} == {"load", "keep"}
