"""Tests of notifications: which changes after a position are found, and what they affect."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.notifications import (
    NOTIFICATION_KINDS,
    Notification,
    NotificationKind,
    Positions,
    find_notifications,
    list_declared_schema_changes,
)

SCHEMA: tuple[NotificationKind, ...] = ("schema-change",)
BREAKING: tuple[NotificationKind, ...] = ("breaking-change",)


def schema(**types: str) -> dict[str, Any]:
    return {"schema": {"fields": [{"name": name, "type": kind} for name, kind in types.items()]}}


def assertions_facet(*results: dict[str, Any]) -> dict[str, Any]:
    return {"dataQualityAssertions": {"assertions": list(results)}}


def write(scenario: Any, dataset: str = "orders", job: str = "load", **types: str) -> str:
    run_id: str = scenario.run(job, "", dataset, dataset_facets={dataset: schema(**types)})
    return run_id


def find(
    scenario: Any,
    resources: QueryResources,
    kinds: Collection[NotificationKind] = NOTIFICATION_KINDS,
    after: int = -1,
    known: Collection[str] = (),
) -> list[Notification]:
    scenario.index_events()
    with resources.reader() as index:
        return find_notifications(resources, index, kinds, Positions(after, after), set(known).__contains__)


def texts(found: list[Notification]) -> list[str]:
    return [item.text for item in found]


def affected(notification: Notification) -> dict[str | None, list[str]]:
    return {
        column.column: sorted(f"{item.dataset.namespace}:{item.dataset.name}" for item in column.affected)
        for column in notification.impact
    }


@pytest.mark.parametrize(("kind", "verb", "state"), [("FAIL", "failed", "FAILED"), ("ABORT", "was aborted", "ABORTED")])
def test_failed_runs(kind: str, verb: str, state: str, scenario: Any, resources: QueryResources) -> None:
    error = {"errorMessage": {"message": "Disk full\n  at line 3", "programmingLanguage": "PYTHON"}}
    run_id = scenario.run("load", "raw", "orders", kind=kind, run_facets=error)
    scenario.run("other")
    (found,) = find(scenario, resources)
    assert found.text == f"Run {verb}: jobs:load: Disk full"
    assert (found.kind, found.run_uuid, found.state) == ("failed-run", run_id, state)
    assert found.error == "Disk full\n  at line 3"
    assert found.job is not None
    assert found.job.id == "job:jobs:load"


@pytest.mark.parametrize("message", ["", " \n ", "\n"])
def test_a_failed_run_with_a_blank_error(message: str, scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", kind="FAIL", run_facets={"errorMessage": {"message": message, "programmingLanguage": "SQL"}})
    assert texts(find(scenario, resources)) == ["Run failed: jobs:load"]


def test_only_changes_after_the_position_are_found(scenario: Any, resources: QueryResources) -> None:
    scenario.run("first", kind="FAIL")
    scenario.run("second", kind="FAIL")
    assert texts(find(scenario, resources, after=0)) == ["Run failed: jobs:second"]
    assert find(scenario, resources, after=1) == []


def test_a_run_that_failed_and_then_completed_is_no_failed_run(scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", kind="FAIL", run="attempt")
    scenario.run("load", kind="COMPLETE", run="attempt")
    assert find(scenario, resources) == []


def test_the_id_of_a_change_is_stable(scenario: Any, resources: QueryResources) -> None:
    scenario.run("load", kind="FAIL", run="attempt")
    (first,) = find(scenario, resources)
    scenario.run("load", kind="FAIL", run="attempt")
    (second,) = find(scenario, resources, after=0)
    assert first.id == second.id
    assert find(scenario, resources, after=0, known=[first.id]) == []


@pytest.mark.parametrize("placement", ["facets", "inputFacets"])
def test_failed_tests_of_a_run(placement: str, scenario: Any, resources: QueryResources) -> None:
    scenario.run("check", "orders")
    scenario.events[-1]["inputs"][0][placement] = assertions_facet(
        {"assertion": "unique", "column": "id", "success": False, "expected": "0", "actual": "3", "severity": "warn"},
        {"assertion": "not_null", "column": "id", "success": True},
        {"assertion": "unknown", "column": "id"},
    )
    (found,) = find(scenario, resources)
    assert found.text == "Test failed (warn): unique(id) on db:orders, by jobs:check: expected 0, actual 3"
    assert found.test is not None
    assert found.test.column == "id"


def test_equal_tests_of_a_run_differ_and_are_reported_once(scenario: Any, resources: QueryResources) -> None:
    item = {"assertion": "in_range", "column": "price", "success": False}
    for kind in ("RUNNING", "COMPLETE"):
        scenario.run("check", "orders", kind=kind, run="one")
        scenario.events[-1]["inputs"][0]["facets"] = assertions_facet(
            {**item, "expected": "<9"}, {**item, "expected": ">1"}
        )
        scenario.index_events()
    found = find(scenario, resources)
    assert len({item.id for item in found}) == len(found) == 2
    assert find(scenario, resources, after=0, known=[item.id for item in found]) == []


def test_failed_tests_of_a_dataset_event_are_reported_for_each_event(scenario: Any, resources: QueryResources) -> None:
    facet = assertions_facet({"assertion": "fresh", "name": "is fresh", "success": False})
    scenario.dataset("orders", **facet)
    (first,) = find(scenario, resources)
    assert first.text == "Test failed: is fresh on db:orders"
    scenario.dataset("orders", **facet)
    (second,) = find(scenario, resources, after=0)
    assert first.id != second.id


def test_schema_changes(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int", price="double")
    write(scenario, id="int", price="double")
    run_id = write(scenario, id="bigint", total="double")
    (found,) = find(scenario, resources, SCHEMA, after=1)
    assert found.text == (
        "Schema change: db:orders (written by jobs:load): added total; removed price; retyped id: int → bigint"
    )
    assert found.run_uuid == run_id
    assert found.schema is not None
    assert (found.schema.added, found.schema.removed) == (("total",), ("price",))


def test_a_new_dataset_and_an_equal_schema_are_no_changes(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int")
    write(scenario, id="int")
    # The order of columns and unknown types are no changes.
    scenario.run("load", "", "orders", dataset_facets={"orders": {"schema": {"fields": [{"name": "id"}]}}})
    assert find(scenario, resources) == []


def test_a_failed_run_does_not_change_a_schema(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int")
    scenario.run("load", "", "orders", kind="FAIL", dataset_facets={"orders": schema(id="text")})
    assert find(scenario, resources, SCHEMA) == []


def test_a_run_whose_last_event_lists_no_datasets(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int")
    scenario.run("load", "", "orders", kind="START", run="last", dataset_facets={"orders": schema(id="text")})
    assert find(scenario, resources, SCHEMA, after=0) == []
    scenario.run("load", kind="COMPLETE", run="last")
    assert texts(find(scenario, resources, SCHEMA, after=1)) == [
        "Schema change: db:orders (written by jobs:load): retyped id: int → text"
    ]


def test_a_schema_under_an_alias(scenario: Any, resources: QueryResources) -> None:
    scenario.symlink("orders", "orders_alias")
    write(scenario, id="int")
    write(scenario, "orders_alias", id="text")
    (found,) = find(scenario, resources, SCHEMA)
    assert found.schema is not None
    assert [column.name for column in found.schema.retyped] == ["id"]


def test_schema_changes_of_dataset_events(scenario: Any, resources: QueryResources) -> None:
    scenario.dataset("orders", **schema(id="int"))
    scenario.dataset("orders", **schema(id="text"))
    (found,) = find(scenario, resources, SCHEMA)
    assert found.text == "Schema change: db:orders: retyped id: int → text"
    with resources.reader() as index:
        assert found.id in list_declared_schema_changes(index)


def test_schema_changes_of_a_file_that_nobody_writes(scenario: Any, resources: QueryResources) -> None:
    """Each job is compared with itself, and a change that several jobs see is one."""

    def read(job: str, **types: str) -> None:
        scenario.run(job, "file:raw.csv", f"{job}_out", dataset_facets={"file:raw.csv": schema(**types)})

    for job in ("a", "b"):
        read(job, id="int", price="int")
    read("narrow", id="int")
    assert find(scenario, resources, SCHEMA) == []
    read("a", id="int")
    read("b", id="int")
    (found,) = find(scenario, resources, SCHEMA, after=2)
    assert found.text == "Schema change: file:raw.csv (read by jobs:a): removed price"


def test_breaking_change_of_a_column_that_others_depend_on(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"total": "orders.price", "n": "orders.id"}})
    scenario.run("plot", "summary", "chart", columns={"chart": {"y": "summary.total"}})
    position = len(scenario.events) - 1
    write(scenario, id="int")
    (found,) = find(scenario, resources, BREAKING, after=position)
    assert affected(found) == {"price": ["db:chart", "db:summary"]}
    assert found.text == (
        "Breaking change: db:orders (written by jobs:load): removed price; affects db:summary (total), db:chart (y)"
    )
    assert {job for column in found.impact for item in column.affected for job in item.jobs} == {
        "job:jobs:sum",
        "job:jobs:plot",
    }


def test_breaking_change_with_a_retyped_column(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"total": "orders.price orders.id!FILTER"}})
    write(scenario, id="text", price="int")
    (found,) = find(scenario, resources, BREAKING, after=1)
    (column,) = found.impact
    assert (column.column, column.change, column.type_before, column.type_after) == ("id", "retyped", "int", "text")
    assert column.affected[0].dependency_type == "INDIRECT"


def test_the_lineage_before_the_change_counts(scenario: Any, resources: QueryResources) -> None:
    """Also if the index is so late that it has the next run of the dependent job already, without the column."""
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"total": "orders.price"}})
    scenario.index_events()
    write(scenario, id="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"n": "orders.id"}})
    (found,) = find(scenario, resources, BREAKING, after=1)
    assert affected(found) == {"price": ["db:summary"]}


@pytest.mark.parametrize("after", [{"id": "int", "price": "int", "new": "int"}, {"id": "int"}])
def test_changes_that_nothing_depends_on_do_not_break(
    after: dict[str, str], scenario: Any, resources: QueryResources
) -> None:
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"n": "orders.id"}})
    write(scenario, **after)
    assert find(scenario, resources, BREAKING) == []


def test_readers_without_column_lineage_may_be_affected(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"n": "orders.id"}})
    scenario.run("export", "orders", "file")
    write(scenario, id="int")
    (found,) = find(scenario, resources, BREAKING)
    assert found.readers == ("job:jobs:export",)
    assert found.text.endswith("removed price; may affect jobs:export")


def test_a_dropped_dataset(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int")
    scenario.run("sum", "orders", "summary", columns={"summary": {"n": "orders.id"}})
    scenario.dataset("orders", lifecycleStateChange={"lifecycleStateChange": "DROP"})
    found = find(scenario, resources, after=1)
    assert texts(found) == [
        "Breaking change: db:orders: dropped; affects db:summary (n)",
        "Schema change: db:orders: dropped",
    ]


def test_many_changed_columns_are_one_impact(scenario: Any, resources: QueryResources) -> None:
    columns = {f"c{number}": "int" for number in range(80)}
    write(scenario, **columns)
    scenario.run("sum", "orders", "summary", columns={"summary": {"n": "orders.c7"}})
    write(scenario, id="int")
    (found,) = find(scenario, resources, BREAKING)
    assert affected(found) == {None: ["db:summary"]}


def test_namespaces(scenario: Any, resources: QueryResources) -> None:
    write(scenario, id="int", price="int")
    scenario.run("sum", "orders", "dwh:summary", columns={"dwh:summary": {"total": "orders.price"}})
    scenario.run("export", "orders", "file")
    write(scenario, id="int")
    (found,) = find(scenario, resources, BREAKING)
    assert {"jobs", "db", "dwh", "jobs:export"} <= found.namespaces()


def test_frames_of_notebooks_have_no_schema_changes(scenario: Any, resources: QueryResources) -> None:
    for types in ({"id": "int"}, {"id": "int", "price": "int"}):
        scenario.run("cell", "", "marimo:nb.py/df", dataset_facets={"marimo:nb.py/df": schema(**types)})
    assert find(scenario, resources) == []
