"""Documents of datasets, jobs and runs, and what differs between two runs or versions."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.diff import diff_runs, diff_versions
from clew.query.entities.facets import describe_dataset, describe_job, describe_run
from clew.query.model import DatasetName
from clew.query.names import UnknownNameError


def schema(**fields: str) -> dict[str, Any]:
    return {"schema": {"fields": [{"name": name, "type": kind} for name, kind in fields.items()]}}


@pytest.fixture
def builds(world: Any) -> Any:
    """Two runs of a job; the second reads one more table, and writes other columns and fewer rows."""
    described = {"out": {**schema(id="int", day="date"), "documentation": {"description": "What is built"}}}
    columns = {"out": {"id": "a.id", "day": "a.day"}}
    world.run("build", "a", "out", run="1", kind="START", minute=1, parent="dag")
    world.run("build", "a", "out", run="1", minute=2, columns=columns, dataset_facets=described, rows=10)
    described = {"out": schema(id="bigint", total="int")}
    columns = {"out": {"id": "a.id", "total": "b.price"}}
    world.run("build", "a b", "out", run="2", minute=5, columns=columns, dataset_facets=described, rows=7)
    world.symlink("out", "alias")
    world.tell()
    return world


def test_a_run_says_what_it_read_and_wrote(builds: Any, holdings: QueryResources) -> None:
    with holdings.reader() as index:
        run = describe_run(index, builds.run_id("1"))
    assert (run.state, run.duration_ms) == ("COMPLETED", 60_000)
    assert run.job is not None
    assert run.job.name == "build"
    assert run.parent_run_id == builds.run_id("dag")
    assert [(use.name, use.row_count) for use in run.outputs] == [("out", 10)]
    assert "parent" in run.facets


def test_a_run_that_others_name_is_a_placeholder(builds: Any, holdings: QueryResources) -> None:
    with holdings.reader() as index:
        assert describe_run(index, builds.run_id("dag")).is_placeholder
        with pytest.raises(UnknownNameError):
            describe_run(index, "none")


@pytest.mark.parametrize("name", ["out", "alias"])
def test_a_dataset_by_any_name(builds: Any, holdings: QueryResources, name: str) -> None:
    assert builds.events
    with holdings.reader() as index:
        found = describe_dataset(index, "db", name)
    assert (found.id, found.description) == ("dataset:db:out", "What is built")
    assert [(column.name, column.type) for column in found.columns] == [("id", "bigint"), ("total", "int")]
    assert [job.name for job in found.written_by] == ["build"]
    assert found.aliases == (DatasetName("db", "alias"),)


def test_a_job_with_its_last_run(builds: Any, holdings: QueryResources) -> None:
    with holdings.reader() as index:
        job = describe_job(index, "jobs", "build")
        assert describe_job(index, "jobs", "dag").is_placeholder
    assert job.latest_run is not None
    assert job.latest_run.id == builds.run_id("2")
    assert [dataset.name for dataset in job.inputs] == ["a", "b"]


def test_two_runs_differ_in_what_they_read_and_made(builds: Any, holdings: QueryResources) -> None:
    with holdings.reader() as index:
        diff = diff_runs(index, builds.run_id("1"), builds.run_id("2"))
        assert diff_runs(index, builds.run_id("1"), builds.run_id("1")).outputs.changed == ()
    assert diff.inputs.added == (DatasetName("db", "b"),)
    (out,) = diff.outputs.changed
    assert out.schema is not None
    assert (out.schema.added, out.schema.removed) == (("total",), ("day",))
    assert [(one.name, one.left, one.right) for one in out.schema.retyped] == [("id", "int", "bigint")]
    assert out.row_count is not None
    assert (out.row_count.left, out.row_count.right) == (10, 7)
    assert out.lineage is not None
    assert [edge.source.name for edge in out.lineage.added] == ["b"]
    assert diff.state is None


def test_two_versions_differ_as_the_runs_that_wrote_them(builds: Any, holdings: QueryResources) -> None:
    with holdings.reader() as index:
        diff = diff_versions(index, DatasetName("db", "out"))
        turned = diff_versions(index, DatasetName("db", "out"), builds.run_id("2"), builds.run_id("1"))
        with pytest.raises(UnknownNameError, match="version of out"):
            diff_versions(index, DatasetName("db", "out"), "9")
        with pytest.raises(UnknownNameError, match="nothing to compare"):
            diff_versions(index, DatasetName("db", "a"))
    assert diff.runs.left == builds.run_id("1")
    assert diff.difference.schema is not None
    assert turned.difference.schema is not None
    assert diff.difference.schema.added == turned.difference.schema.removed


def test_cells_of_two_sessions_differ_by_their_source(story: Any) -> None:
    runs = []
    for session_id, cell in (("aaaa1111", "load"), ("bbbb2222", "load"), ("cccc3333", "keep")):
        session = story.session(session_id)
        runs.append(session.operation(cell, "df@1", {}))
    story.tell()
    with QueryResources(story.index) as holdings, holdings.reader() as index:
        assert diff_runs(index, runs[0], runs[1]).code == ()
        assert {one.name for one in diff_runs(index, runs[0], runs[2]).code} == {"load", "keep"}
