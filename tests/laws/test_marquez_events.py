"""Events of Marquez's own integration tests, with the answers they expect.

Each test sends its events to an index that is always current, and to one that is behind.
`docs/marquez-compatibility.md` has the differences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid3

import pytest
from tests.support.marquez_server import (
    PRODUCER,
    MarquezServer,
    dataset,
    dataset_path,
    facet,
    job_path,
    parent_facet,
    run_event,
    run_id,
    run_marquez_server,
    schema,
    static_event,
)


@pytest.fixture(params=[True, False], ids=["indexed", "behind"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MarquezServer]:
    with run_marquez_server(tmp_path / "home", is_eager=request.param) as server:
        yield server


def names(documents: list[Any]) -> list[str]:
    return [document["name"] for document in documents]


# Events and their documents.

RUN_FACETS: Any = {
    "nominalTime": facet(nominalStartTime="2020-12-17T03:00:00.001Z", nominalEndTime="2020-12-17T04:00:00.001Z"),
    "additionalProp1": facet(additionalProp1={}),
    "spark_version": facet(**{"spark-version": "3.1", "nested": {"a": [1, 2.5, None, "text"]}}),
}
JOB_FACETS = {
    "documentation": facet(description="The job docs"),
    "sourceCodeLocation": facet(type="git", url="https://git.example.org/shop/blob/1/load.py"),
    "sql": facet(query="SELECT * FROM foo"),
    "additionalProp1": facet(additionalProp1={}),
}
TABLE_FACETS: Any = {
    "documentation": facet(description="The table docs"),
    "schema": facet(
        fields=[
            {"name": "column1", "type": "VARCHAR", "description": "a column"},
            {"name": "column2", "type": "VARCHAR"},
        ]
    ),
    "dataSource": facet(name="my-database", uri="postgres://db.example.org:5432/shop"),
    "additionalProp1": facet(additionalProp1={}),
}
EVENTS = {
    "required members only": {
        "eventTime": "2020-12-28T19:52:00.001+10:00",
        "run": {"runId": run_id("required")},
        "job": {"namespace": "scheduler", "name": "myjob.mytask"},
        "producer": PRODUCER,
    },
    "datasets without facets": run_event(
        run_id("simple"),
        "myjob.mytask",
        inputs=[{"namespace": "warehouse", "name": "input-1"}],
        outputs=[{"namespace": "warehouse", "name": "output-1"}],
    ),
    "all facets": run_event(
        run_id("full"),
        "myjob.mytask",
        run_facets=RUN_FACETS,
        job_facets=JOB_FACETS,
        inputs=[dataset("instance.schema.in", **TABLE_FACETS)],
        outputs=[dataset("instance.schema.out", **TABLE_FACETS)],
    ),
    "unicode": run_event(run_id("unicode"), "myjob.buggy_task🕷", outputs=[dataset("räw/öütput")]),
    "no end of the nominal time": run_event(
        run_id("nominal"),
        "myjob.task",
        "START",
        run_facets={"nominalTime": facet(nominalStartTime="2020-12-28T19:51:01.641Z")},
    ),
    "addresses as namespaces": run_event(
        run_id("namespaces"),
        "myjob.mytask",
        namespace="spark://localhost:7077",
        inputs=[dataset("in", "sqlserver://myhost:3342;user=auser;password=x;database=TheDatabase", **TABLE_FACETS)],
        outputs=[dataset("/path/out", "s3://bucket", **TABLE_FACETS)],
    ),
    "without a schema URL": {
        key: value for key, value in run_event(run_id("no url"), "myjob.mytask").items() if key != "schemaURL"
    },
    "nanoseconds": run_event(run_id("nanoseconds"), "load", eventTime="2020-12-28T19:52:00.001234567+10:00"),
    "no time zone": run_event(run_id("zone"), "load", eventTime="2020-12-28T19:52:00.001"),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_facets_of_an_event_are_those_of_its_run_job_and_datasets(server: MarquezServer, event: Any) -> None:
    assert server.send_event(event) == ""
    run = server.get(f"/jobs/runs/{event['run']['runId']}")
    assert run["facets"] == event["run"].get("facets", {})
    job = server.get(job_path(event["job"]["namespace"], event["job"]["name"]))
    assert job["facets"] == event["job"].get("facets", {})
    for item in (*event.get("inputs", []), *event.get("outputs", [])):
        path = dataset_path(item["namespace"], item["name"])
        assert server.get(path)["facets"] == item.get("facets", {})
    for item in event.get("outputs", []):
        newest = server.get(f"{dataset_path(item['namespace'], item['name'])}/versions")["versions"][0]
        assert (newest["namespace"], newest["name"]) == (item["namespace"], item["name"])
        assert newest["facets"] == item.get("facets", {})


def test_a_dataset_that_is_only_read_has_no_version(server: MarquezServer) -> None:
    server.send_event(run_event(run_id("read"), "load", inputs=[dataset("in", schema=schema("a"))]))
    path = dataset_path("warehouse", "in")
    assert server.get(f"{path}/versions")["versions"] == []
    assert server.get(path)["currentVersion"] is None
    (read,) = server.get(f"/jobs/runs/{run_id('read')}")["inputDatasetVersions"]
    assert read["datasetVersionId"]["version"] is not None


def test_a_dataset_event(server: MarquezServer) -> None:
    table = dataset("my-dataset-name", schema=schema("col_a"))
    server.send_event(static_event("DatasetEvent", dataset=table))
    path = dataset_path("warehouse", "my-dataset-name")
    assert server.get(path)["facets"] == table["facets"]
    newest = server.get(f"{path}/versions")["versions"][0]
    assert (newest["name"], newest["facets"], newest["createdByRun"]) == ("my-dataset-name", table["facets"], None)


def test_a_job_event(server: MarquezServer) -> None:
    tables = [dataset(kind, documentation=facet(description=f"{kind} docs")) for kind in ("input", "output")]
    job = {"namespace": "scheduler", "name": "myjob"}
    server.send_event(static_event("JobEvent", job=job, inputs=tables[:1], outputs=tables[1:]))
    document = server.get(job_path("scheduler", "myjob"))
    assert document["facets"] == {}
    assert (document["inputs"], document["outputs"]) == (
        [{"namespace": "warehouse", "name": "input"}],
        [{"namespace": "warehouse", "name": "output"}],
    )
    for kind in ("input", "output"):
        assert server.get(dataset_path("warehouse", kind))["description"] == f"{kind} docs"
    version = server.get(f"{job_path('scheduler', 'myjob')}/versions", limit=1)["versions"][0]["version"]
    assert server.get(f"{job_path('scheduler', 'myjob')}/versions/{version}")["inputs"] == document["inputs"]
    # Only events of runs are listed.
    assert server.read_list("/events/lineage")["events"] == []


# Invalid events.

VALID = run_event(run_id("valid"), "load", inputs=[dataset("in")])
INVALID = {
    "a dataset without name": {**VALID, "inputs": [{"namespace": "warehouse", "name": None, "facets": {}}]},
    "a job without name": {**VALID, "job": {"namespace": "team", "name": None}},
    "a run without id": {**VALID, "run": {"facets": {}, "runId": None}},
}
# In Marquez, they are 422, 422, 400 and 500.
ACCEPTED = {
    "a schema field without name": {
        **VALID,
        "outputs": [dataset("out", schema=facet(fields=[{"assertion": "a", "success": True}]))],
    },
    "a parent without run": run_event(
        run_id("valid"), "load", run_facets={"parent": facet(run={}, job={"namespace": "team", "name": "dag"})}
    ),
    "a namespace with any characters": {**VALID, "inputs": [dataset("the_table", "sqlserver://h;password=😂;x=y")]},
    "a bare date": {**VALID, "eventTime": "2021-11-03"},
}


@pytest.mark.parametrize("event", INVALID.values(), ids=INVALID)
def test_an_invalid_event_is_422(server: MarquezServer, event: Any) -> None:
    server.send_event(event, 422)
    server.get(job_path("team", "load"), 404)


@pytest.mark.parametrize("event", ACCEPTED.values(), ids=ACCEPTED)
def test_an_event_that_marquez_rejects_is_stored(server: MarquezServer, event: Any) -> None:
    server.send_event(event)
    assert server.get(job_path("team", "load"))["name"] == "load"
    assert server.get(f"/jobs/runs/{run_id('valid')}")["state"] == "COMPLETED"


@pytest.mark.parametrize("node", ["dataset:Imadethisup:andthistoo", "job:Imadethisup:andthistoo", "run:none"])
def test_lineage_of_an_unknown_node_is_404(server: MarquezServer, node: str) -> None:
    # Without any event there is no index.
    server.send_event(VALID)
    server.index_new_events()
    server.get("/lineage", 404, nodeId=node)


# Parents: a task of a DAG, in the forms that Airflow has sent.

DAG_RUN = run_id("dag")


def check_task(server: MarquezServer, task: str, dag: str, dag_runs: int = 1, namespace: str = "team") -> Any:
    """Check the job of a task, and the job and the runs of its DAG."""
    job = server.get(job_path(namespace, f"{dag}.{task}"))
    assert job["id"] == {"namespace": namespace, "name": f"{dag}.{task}"}
    assert (job["parentJobName"], job["simpleName"]) == (dag, task)
    parent = server.get(job_path(namespace, dag))
    assert (parent["id"], parent["parentJobName"]) == ({"namespace": namespace, "name": dag}, None)
    runs = server.read_list(f"{job_path(namespace, dag)}/runs")["runs"]
    assert len(runs) == dag_runs
    return runs[0] if runs else None


@pytest.mark.parametrize(
    ("dag", "tasks"),
    [
        ("the_dag", ["task1", "task2"]),
        ("the.dag", ["task1", "task2"]),
        ("dag_with_task_group", ["task_group.task1", "task_group.task2"]),
    ],
)
@pytest.mark.parametrize("key", ["parent", "parentRun"])
def test_tasks_of_a_dag(server: MarquezServer, dag: str, tasks: list[str], key: str) -> None:
    for task in tasks:
        facets = {key: parent_facet(DAG_RUN, dag)}
        server.send_event(run_event(run_id(task), f"{dag}.{task}", run_facets=facets))
    for task in tasks:
        assert check_task(server, task, dag)["id"] == DAG_RUN


@pytest.mark.parametrize("keys", [("parent", "parentRun"), ("parentRun", "parent")])
def test_parent_run_wins_over_parent(server: MarquezServer, keys: tuple[str, str]) -> None:
    other = facet(run={"runId": DAG_RUN}, job={"namespace": "incorrect", "name": "a_new_dag"})
    both = {"parentRun": parent_facet(DAG_RUN, "the_dag"), "parent": other}
    for task in ("task1", "task2"):
        facets = {key: both[key] for key in keys}
        server.send_event(run_event(run_id(task), f"the_dag.{task}", run_facets=facets))
    check_task(server, "task1", "the_dag")


@pytest.mark.parametrize("with_parent", ["START", "COMPLETE"])
@pytest.mark.parametrize("order", [("START", "COMPLETE"), ("COMPLETE", "START")])
def test_only_one_event_of_a_task_has_the_parent(
    server: MarquezServer, order: tuple[str, str], with_parent: str
) -> None:
    for kind in order:
        parent = (DAG_RUN, "the_dag") if kind == with_parent else None
        server.send_event(run_event(run_id("task1"), "the_dag.task1", kind, parent=parent))
    run = check_task(server, "task1", "the_dag")
    assert run["startedAt"] is not None
    runs = server.read_list(f"{job_path('team', 'the_dag.task1')}/runs")["runs"]
    assert [run["id"] for run in runs] == [run_id("task1")]


@pytest.mark.parametrize("is_first", [True, False])
def test_only_one_run_of_a_task_has_the_parent(server: MarquezServer, is_first: bool) -> None:
    for number in (0, 1):
        parent = (DAG_RUN, "the_dag") if (number == 0) is is_first else None
        server.send_event(run_event(run_id(f"run{number}"), "the_dag.task1", parent=parent))
    check_task(server, "task1", "the_dag")
    runs = server.read_list(f"{job_path('team', 'the_dag.task1')}/runs")["runs"]
    assert {run["id"] for run in runs} == {run_id("run0"), run_id("run1")}


def test_a_parent_in_the_form_of_old_airflow(server: MarquezServer) -> None:
    """The parent's run is the schedule, and its job is the task."""
    schedule = "scheduled__2022-04-25T00:20:00+00:00"
    for task in ("task1", "task2"):
        parent = (schedule, f"the_dag.{task}")
        server.send_event(run_event(run_id(task), f"the_dag.{task}", parent=parent))
    run = check_task(server, "task1", "the_dag")
    assert run["id"] == str(uuid3(NAMESPACE_URL, f"team.the_dag.{schedule}"))
    assert len(server.read_list(f"{job_path('team', 'the_dag.task1')}/runs")["runs"]) == 1


def test_one_run_id_in_two_namespaces_is_two_jobs(server: MarquezServer) -> None:
    for namespace in ("team", "another_namespace"):
        event = run_event(run_id(namespace), "reused_dag.task1", namespace=namespace, parent=(DAG_RUN, "reused_dag"))
        server.send_event(event)
    for namespace in ("team", "another_namespace"):
        job = server.get(job_path(namespace, "reused_dag.task1"))
        assert job["parentJobName"] == "reused_dag"
        assert server.get(job_path(namespace, "reused_dag"))["parentJobName"] is None


def test_a_spark_job_of_a_task(server: MarquezServer) -> None:
    server.send_event(run_event(run_id("task"), "the_dag.startSparkJob", parent=(DAG_RUN, "the_dag")))
    parent = run_id("task"), "the_dag.startSparkJob"
    server.send_event(run_event(run_id("spark"), "the_dag.startSparkJob.theSparkJob", parent=parent))
    check_task(server, "startSparkJob", "the_dag")
    spark = server.get(job_path("team", "the_dag.startSparkJob.theSparkJob"))
    assert (spark["simpleName"], spark["parentJobName"]) == ("theSparkJob", "the_dag.startSparkJob")


def test_a_child_job_is_deleted_and_its_parent_stays(server: MarquezServer) -> None:
    server.send_event(run_event(run_id("child"), "child", parent=(DAG_RUN, "parent")))
    assert set(names(server.read_list("/namespaces/team/jobs")["jobs"])) == {"parent", "child"}
    server.write("DELETE", job_path("team", "child"))
    assert names(server.read_list("/namespaces/team/jobs")["jobs"]) == ["parent"]


def test_an_id_that_is_no_uuid_is_kept(server: MarquezServer) -> None:
    server.send_event(run_event("manual__2022", "load"))
    assert server.get("/jobs/runs/manual__2022")["id"] == "manual__2022"


# Raw events.


def test_events_are_listed_by_time(server: MarquezServer) -> None:
    run = run_id("events")
    times = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:10Z", "2022-01-01T00:00:10Z")
    events = [
        run_event(run, "load", kind, outputs=[dataset("out")], eventTime=time)
        for kind, time in zip(("START", "RUNNING", "COMPLETE"), times, strict=True)
    ]
    for event in events:
        server.send_event(event)
    assert server.read_list("/events/lineage")["events"] == events[::-1]
    assert server.read_list("/events/lineage", sortDirection="asc", limit=10)["events"] == events
    span = {"after": "2021-01-01T00:00:00Z", "before": "2022-01-01T00:00:00Z"}
    assert server.read_list("/events/lineage", sortDirection="asc", **span)["events"] == events[1:2]


# Deleted datasets and namespaces.


def test_a_deleted_dataset_is_not_listed_until_the_same_event_comes_again(server: MarquezServer) -> None:
    event = run_event(run_id("read"), "job_name", inputs=[dataset("table", "team", schema=schema("a"))])
    server.send_event(event)
    assert names(server.read_list("/namespaces/team/datasets")["datasets"]) == ["table"]
    server.write("DELETE", dataset_path("team", "table"))
    assert server.read_list("/namespaces/team/datasets")["datasets"] == []
    server.get(dataset_path("team", "table"), 404)
    server.send_event(event)
    assert names(server.read_list("/namespaces/team/datasets")["datasets"]) == ["table"]
    assert server.get(dataset_path("team", "table"))["name"] == "table"


def test_a_deleted_namespace_comes_back_with_what_the_next_event_names(server: MarquezServer) -> None:
    for number in ("", "2"):
        table = dataset(f"table{number}", "shop", schema=schema("a"))
        server.send_event(run_event(run_id(f"read{number}"), f"job{number}", namespace="shop", inputs=[table]))
    assert len(server.read_list("/namespaces/shop/datasets")["datasets"]) == 2
    server.write("DELETE", "/namespaces/shop")
    hidden = {item["name"]: item["isHidden"] for item in server.read_list("/namespaces")["namespaces"]}
    assert hidden["shop"]
    for kind in ("datasets", "jobs"):
        assert server.read_list(f"/namespaces/shop/{kind}")[kind] == []
    table = dataset("table", "shop", schema=schema("a"))
    server.send_event(run_event(run_id("again"), "job", namespace="shop", inputs=[table]))
    hidden = {item["name"]: item["isHidden"] for item in server.read_list("/namespaces")["namespaces"]}
    assert not hidden["shop"]
    assert names(server.read_list("/namespaces/shop/datasets")["datasets"]) == ["table"]
    assert names(server.read_list("/namespaces/shop/jobs")["jobs"]) == ["job"]


def test_versions_of_a_table_have_its_name_not_that_of_its_symlink(server: MarquezServer) -> None:
    server.put_table("team", "orders")
    link = facet(identifiers=[{"namespace": "symlinkNamespace", "name": "symlinkName", "type": "TABLE"}])
    table = dataset("orders", "team", schema=schema("firstname"), symlinks=link)
    server.send_event(run_event(run_id("read"), "load", inputs=[table]))
    versions = server.get(f"{dataset_path('team', 'orders')}/versions")["versions"]
    assert {version["name"] for version in versions} == {"orders"}


def test_a_dataset_has_a_version_once_a_run_has_completed(server: MarquezServer) -> None:
    output = [dataset("orders", dataSource=facet(name="theDatasource", uri="http://thedatasource"))]
    path = dataset_path("warehouse", "orders")
    times = (f"2026-01-01T10:0{minute}:00Z" for minute in range(9))
    server.send_event(run_event(run_id("first"), "load", "RUNNING", outputs=output, eventTime=next(times)))
    assert server.get(path)["currentVersion"] is None
    server.send_event(run_event(run_id("first"), "load", outputs=output, eventTime=next(times)))
    first = server.get(path)["currentVersion"]
    assert first is not None
    server.send_event(run_event(run_id("reader"), "read", inputs=output, eventTime=next(times)))
    server.send_event(run_event(run_id("failed"), "load", "FAIL", outputs=output, eventTime=next(times)))
    assert server.get(path)["currentVersion"] == first
    server.send_event(run_event(run_id("reader 2"), "read", inputs=output, eventTime=next(times)))
    for reader in ("reader", "reader 2"):
        (read,) = server.get(f"/jobs/runs/{run_id(reader)}")["inputDatasetVersions"]
        assert read["datasetVersionId"]["version"] == first


def test_an_event_shows_a_deleted_job_again(server: MarquezServer) -> None:
    server.send_event(run_event(run_id("one"), "load"))
    server.write("DELETE", job_path("team", "load"))
    server.get(job_path("team", "load"), 404)
    server.send_event(run_event(run_id("two"), "load"))
    assert server.get(job_path("team", "load"))["name"] == "load"


def test_a_streaming_job_has_its_datasets_while_it_runs(server: MarquezServer) -> None:
    kind = {"jobType": facet(processingType="STREAMING", integration="FLINK", jobType="JOB")}
    inputs, outputs = [dataset("topic")], [dataset("table")]
    for number in range(3):
        event = run_event(
            run_id("stream"),
            "follow",
            "START" if number == 0 else "RUNNING",
            job_facets=kind,
            inputs=inputs,
            outputs=outputs,
            eventTime=f"2026-01-01T10:0{number}:00Z",
        )
        server.send_event(event)
    job = server.get(job_path("team", "follow"))
    assert (job["type"], job["inputs"], job["outputs"]) == (
        "STREAM",
        [{"namespace": "warehouse", "name": "topic"}],
        [{"namespace": "warehouse", "name": "table"}],
    )


# Column lineage: col_a and col_b make col_c, which makes col_d.


def column_lineage(column: str, *sources: tuple[str, str]) -> Any:
    inputs = [{"namespace": "namespace", "name": table, "field": field} for table, field in sources]
    text = {"transformationDescription": "description", "transformationType": "type"}
    return facet(fields={column: {"inputFields": inputs, **text}})


@pytest.fixture
def columns(server: MarquezServer) -> MarquezServer:
    table_a = dataset("dataset_a", "namespace", schema=schema("col_a", "col_b"))
    table_b = dataset(
        "dataset_b",
        "namespace",
        schema=schema("col_c"),
        columnLineage=column_lineage("col_c", ("dataset_a", "col_a"), ("dataset_a", "col_b")),
    )
    table_c = dataset(
        "dataset_c",
        "namespace",
        schema=schema("col_d"),
        columnLineage=column_lineage("col_d", ("dataset_b", "col_c")),
    )
    for number, (source, target) in enumerate([(table_a, table_b), (table_b, table_c)], 1):
        job = f"job{number}"
        server.send_event(run_event(run_id(job), job, namespace="namespace", inputs=[source], outputs=[target]))
    return server


@pytest.mark.parametrize(
    ("node", "params", "expected"),
    [
        ("dataset:namespace:dataset_b", {}, "abc"),
        ("datasetField:namespace:dataset_b:col_c", {}, "abc"),
        ("datasetField:namespace:dataset_c:col_d", {"depth": 1}, "cd"),
        ("job:namespace:job1", {"depth": 10, "withDownstream": "true"}, "abcd"),
        ("job:namespace:job1", {"depth": 1}, "abc"),
    ],
)
def test_column_lineage_of_a_node(columns: MarquezServer, node: str, params: Any, expected: str) -> None:
    graph = columns.read_list("/column-lineage", nodeId=node, **params)["graph"]
    assert [item["data"]["field"] for item in graph] == [f"col_{letter}" for letter in expected]


def test_a_dataset_and_its_list_have_column_lineage(columns: MarquezServer) -> None:
    listed = columns.read_list("/namespaces/namespace/datasets")["datasets"]
    for document in (listed[1], columns.get(dataset_path("namespace", "dataset_b"))):
        (column,) = document["columnLineage"]
        assert column["name"] == "col_c"
        assert [source["field"] for source in column["inputFields"]] == ["col_a", "col_b"]


def test_an_event_is_answered_as_it_was_sent(server: MarquezServer) -> None:
    event = run_event(run_id("back"), "load", outputs=[{"namespace": "warehouse", "name": "out"}])
    server.send_event(json.dumps(event))
    assert server.read_list("/events/lineage")["events"] == [event]
