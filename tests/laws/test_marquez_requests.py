"""Requests of Marquez's own integration tests, with the answers they expect: tags, datasets, jobs and runs.

Each test sends its requests with an index that is always current, and with one that is behind.
`docs/marquez-compatibility.md` has the differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.support.marquez_server import (
    MarquezServer,
    dataset,
    dataset_path,
    facet,
    job_path,
    run_event,
    run_id,
    run_marquez_server,
    schema,
)

FIELDS = [
    {"name": "id", "type": "INTEGER", "tags": ["SENSITIVE"], "description": "The key"},
    {"name": "price", "type": "DECIMAL", "tags": [], "description": "In cents"},
]
TABLE: Any = {"fields": FIELDS, "tags": ["PII"], "description": "All orders"}
NO_RUN = run_id("of no job")


@pytest.fixture(params=[True, False], ids=["indexed", "behind"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MarquezServer]:
    with run_marquez_server(tmp_path / "home", is_eager=request.param) as server:
        yield server


def names(documents: list[Any]) -> list[str]:
    return [document["name"] for document in documents]


# Namespaces and sources.


@pytest.mark.parametrize("name", ["DEFAULT", "database://localhost:1234", "s3://bucket", "bigquery:"])
def test_a_namespace_is_created(server: MarquezServer, name: str) -> None:
    namespace = server.put_namespace(name, "ann", "All of ours")
    assert (namespace["name"], namespace["ownerName"], namespace["description"]) == (name, "ann", "All of ours")
    assert namespace["createdAt"] > "1970"
    assert namespace["updatedAt"] > "1970"
    assert names(server.read_list("/namespaces", limit=1000)["namespaces"]).count(name) == 1


def test_a_namespace_without_description(server: MarquezServer) -> None:
    assert server.put_namespace("bare", "ann", None)["description"] is None


def test_the_owner_of_a_namespace_changes_and_changes_back(server: MarquezServer) -> None:
    owners = [server.put_namespace("home", owner)["ownerName"] for owner in ("daniel", "willy", "daniel")]
    assert owners == ["daniel", "willy", "daniel"]


def test_a_namespace_is_read_and_deleted(server: MarquezServer) -> None:
    created = server.put_namespace("old")
    assert server.get("/namespaces/old") == {**created, "isHidden": False}
    server.write("DELETE", "/namespaces/old")
    assert server.get("/namespaces/old")["isHidden"]


@pytest.mark.parametrize("name", ["test_source312", "s3://bucket", "asdf", "bigquery:"])
def test_a_source_is_created(server: MarquezServer, name: str) -> None:
    source = server.put_source(name)
    assert {key: source[key] for key in ("name", "type", "connectionUrl", "description")} == {
        "name": name,
        "type": "POSTGRESQL",
        "connectionUrl": "jdbc:postgresql://db:5432/shop",
        "description": "The database",
    }
    assert source["createdAt"] > "1970"
    assert names(server.read_list("/sources", limit=1000)["sources"]).count(name) == 1
    assert server.get(f"/sources/{name.replace('/', '%2F')}") == source


# Tags.


def test_a_tag_is_created_and_changed(server: MarquezServer) -> None:
    assert server.write("PUT", "/tags/tag", body={"description": "First"}) == {"name": "tag", "description": "First"}
    assert server.write("PUT", "/tags/tag", body={"description": "New"})["description"] == "New"
    assert server.write("PUT", "/tags/tag2", body={"description": None})["description"] is None
    assert [tag for tag in server.get("/tags")["tags"] if tag["name"].startswith("tag")] == [
        {"name": "tag", "description": "New"},
        {"name": "tag2", "description": None},
    ]


def test_tags_of_a_dataset_and_of_a_field_are_set_and_removed(server: MarquezServer) -> None:
    server.put_table("team", "orders", **TABLE)
    path = dataset_path("team", "orders")
    assert set(server.write("POST", f"{path}/tags/TESTDATASETTAG")["tags"]) == {"PII", "TESTDATASETTAG"}
    assert server.write("DELETE", f"{path}/tags/TESTDATASETTAG")["tags"] == ["PII"]
    for _ in range(2):
        tagged = server.write("POST", f"{path}/fields/id/tags/TESTFIELDTAG")
        assert set(tagged["fields"][0]["tags"]) == {"SENSITIVE", "TESTFIELDTAG"}
    assert server.write("DELETE", f"{path}/fields/id/tags/TESTFIELDTAG")["fields"][0]["tags"] == ["SENSITIVE"]
    assert server.get(path)["fields"][0]["tags"] == ["SENSITIVE"]


def test_a_tag_of_an_unknown_field_is_404(server: MarquezServer) -> None:
    server.put_table("team", "orders", **TABLE)
    server.request("POST", f"{dataset_path('team', 'orders')}/fields/none/tags/TESTTAG", 404)


def test_tags_of_a_job_are_set_and_removed(server: MarquezServer) -> None:
    server.put_job("team", "load")
    path = job_path("team", "load")
    assert server.write("POST", f"{path}/tags/NIGHTLY")["tags"] == ["NIGHTLY"]
    assert server.write("DELETE", f"{path}/tags/NIGHTLY")["tags"] == []


# Datasets.


def test_a_table_is_created_and_gets_fields(server: MarquezServer) -> None:
    table = server.put_table("team", "orders", **TABLE)
    assert table["id"] == {"namespace": "team", "name": "orders"}
    assert {key: table[key] for key in ("type", "name", "physicalName", "sourceName", "tags", "description")} == {
        "type": "DB_TABLE",
        "name": "orders",
        "physicalName": "orders",
        "sourceName": "db",
        "tags": ["PII"],
        "description": "All orders",
    }
    assert table["fields"] == FIELDS
    # No run has modified it.
    assert table["lastModifiedAt"] is None
    assert table["createdAt"] > "1970"
    assert names(server.read_list("/namespaces/team/datasets")["datasets"]) == ["orders"]
    versions = f"{dataset_path('team', 'orders')}/versions"
    assert len(server.get(versions)["versions"]) == 1
    fields = [*FIELDS, {"name": "tax", "type": "DECIMAL", "tags": ["PII"], "description": "Of the state"}]
    changed = server.put_table("team", "orders", **{**TABLE, "fields": fields})
    assert (changed["fields"], changed["tags"], changed["lastModifiedAt"]) == (fields, ["PII"], None)
    assert len(server.get(versions)["versions"]) == 2


def test_fields_are_replaced_and_may_have_no_type(server: MarquezServer) -> None:
    server.put_table("team", "orders", fields=[{"name": "a", "type": "INTEGER"}, {"name": "b", "type": "TIMESTAMP"}])
    changed = [{"name": "a", "type": "INTEGER"}, {"name": "b-fix", "type": None}]
    server.put_table("team", "orders", fields=changed)
    fields = server.get(dataset_path("team", "orders"))["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [("a", "INTEGER"), ("b-fix", None)]


def test_tags_of_a_table_are_added_and_those_of_its_fields_replaced(server: MarquezServer) -> None:
    server.put_table("team", "orders", **TABLE)
    fields = [{**FIELDS[1], "tags": ["PII"]}, FIELDS[0]]
    updated = server.put_table("team", "orders", **{**TABLE, "fields": fields, "tags": ["SENSITIVE"]})
    assert (set(updated["tags"]), updated["fields"]) == ({"PII", "SENSITIVE"}, fields)
    assert server.get(dataset_path("team", "orders"))["tags"] == updated["tags"]


def test_a_description_stays(server: MarquezServer) -> None:
    server.put_table("team", "orders", **TABLE)
    assert server.put_table("team", "orders", fields=FIELDS)["description"] == "All orders"


def test_a_stream_has_a_schema_location(server: MarquezServer) -> None:
    body: Any = {"type": "STREAM", "sourceName": "kafka", "description": "Clicks"}
    stream = server.put_table("team", "clicks", **body, schemaLocation="http://schemas/1")
    assert (stream["type"], stream["schemaLocation"], stream["fields"]) == ("STREAM", "http://schemas/1", [])
    assert stream["lastModifiedAt"] is None
    changed = server.put_table("team", "clicks", **body, schemaLocation="http://schemas/2")
    assert (changed["schemaLocation"], changed["description"]) == ("http://schemas/2", "Clicks")
    versions = server.get(f"{dataset_path('team', 'clicks')}/versions")["versions"]
    # A change of the location alone makes no version.
    assert [version["schemaLocation"] for version in versions] == ["http://schemas/2"]
    version = server.get(f"{dataset_path('team', 'clicks')}/versions/{versions[-1]['version']}")
    assert version == versions[-1]
    assert (version["type"], version["sourceName"], version["createdByRun"]) == ("STREAM", "kafka", None)


def test_versions_of_a_table_that_a_run_writes(server: MarquezServer) -> None:
    server.put_table("team", "orders", **TABLE)
    own = {"documentation": facet(description="All orders"), "schema": schema("firstname"), "outputKey": facet(x="out")}
    run, now = run_id(), datetime.now(UTC).isoformat()
    server.send_event(run_event(run, "load", outputs=[dataset("orders", "team", **own)], eventTime=now))
    read = {**own, "inputKey": facet(x="in")}
    server.send_event(run_event(run_id(), "report", inputs=[dataset("orders", "team", **read)], eventTime=now))
    versions = server.get(f"{dataset_path('team', 'orders')}/versions")["versions"]
    assert len(versions) == 2
    assert {version["description"] for version in versions} == {"All orders"}
    newest, first = versions
    assert newest["createdByRun"]["id"] == run
    assert newest["facets"].items() >= {**own, **read}.items()
    assert (first["createdByRun"], first["fields"], first["tags"]) == (None, FIELDS, ["PII"])
    assert (first["physicalName"], first["sourceName"]) == ("orders", "db")


def test_a_table_with_a_run_has_its_version(server: MarquezServer) -> None:
    server.put_table("team", "table1", **TABLE)
    server.put_job("team", "load", outputs=[{"namespace": "team", "name": "table1"}])
    run = server.create_run("team", "load")
    server.put_table("team", "table1", **TABLE, runId=run["id"])
    completed = server.mark_run(run["id"], "complete")
    versions = server.get(f"{dataset_path('team', 'table1')}/versions")["versions"]
    assert len(versions) == 2
    assert versions[0]["createdByRun"] == completed
    keys = ("id", "createdAt", "args", "nominalStartTime", "nominalEndTime")
    assert {key: completed[key] for key in keys} == {key: run[key] for key in keys}
    assert server.get(dataset_path("team", "table1"))["lastModifiedAt"] == completed["endedAt"]


@pytest.mark.parametrize(
    "path",
    [
        dataset_path("team", "not-existing"),
        f"{dataset_path('team', 'not-existing')}/versions/{NO_RUN}",
        dataset_path("non-existing", "not-existing"),
        job_path("team", "not-existing"),
        f"{job_path('team', 'a fake job name')}/versions",
        f"{job_path('team', 'a fake job name')}/runs",
        "/namespaces/non-existing",
        "/sources/non-existing",
        f"/jobs/runs/{NO_RUN}",
    ],
)
def test_an_unknown_name_is_404(server: MarquezServer, path: str) -> None:
    assert server.get(path, 404)["code"] == 404


def test_a_table_of_an_unknown_run_or_source_is_404(server: MarquezServer) -> None:
    assert server.put_table("team", "orders", 404, **TABLE, runId=NO_RUN)["code"] == 404
    assert server.put_table("team", "orders", 404, **TABLE, sourceName="none")["code"] == 404
    assert server.put_table("none", "orders", 404, **TABLE)["code"] == 404


def test_search_finds_a_table(server: MarquezServer) -> None:
    server.put_table("team", "public.mytable", **TABLE)
    found = server.read_list("/search", q="mytable")
    assert found["totalCount"] == 1
    assert (found["results"][0]["type"], found["results"][0]["name"]) == ("DATASET", "public.mytable")


# Jobs and runs.


def test_a_job_runs_from_its_declaration_to_its_end(server: MarquezServer) -> None:
    inputs = [{"namespace": "team", "name": f"in{number}"} for number in range(4)]
    outputs = [{"namespace": "team", "name": f"out{number}"} for number in range(2)]
    for table in (*inputs, *outputs):
        server.put_table("team", table["name"], sourceName="kafka", description="A table")
    body: Any = {"inputs": inputs, "outputs": outputs, "description": "Loads"}
    job = server.put_job("team", "load", **body)
    assert job["id"] == {"namespace": "team", "name": "load"}
    assert (job["type"], job["location"], job["description"]) == ("BATCH", "https://git.example.org/shop", "Loads")
    assert (job["inputs"], job["latestRun"]) == (inputs, None)
    run = server.create_run("team", "load")
    assert run | {"id": "", "createdAt": "", "updatedAt": "", "facets": {}, "jobVersion": None} == {
        "id": "",
        "createdAt": "",
        "updatedAt": "",
        "nominalStartTime": None,
        "nominalEndTime": None,
        "state": "NEW",
        "startedAt": None,
        "endedAt": None,
        "durationMs": None,
        "args": {},
        "jobVersion": None,
        "inputDatasetVersions": [],
        "outputDatasetVersions": [],
        "facets": {},
    }
    started = server.mark_run(run["id"], "start", at="2026-01-01T10:00:00.123456Z")
    assert (started["state"], started["startedAt"]) == ("RUNNING", "2026-01-01T10:00:00.123456Z")
    assert (started["endedAt"], started["durationMs"], started["args"]) == (None, None, {})
    updated = server.put_job("team", "load", **body, runId=run["id"])
    assert (updated["inputs"], updated["outputs"]) == (inputs, outputs)
    assert updated["latestRun"]["id"] == run["id"]
    ended = server.mark_run(run["id"], "complete", at="2026-01-01T10:00:01.123456Z")
    assert (ended["state"], ended["startedAt"]) == ("COMPLETED", "2026-01-01T10:00:00.123456Z")
    assert (ended["endedAt"], ended["durationMs"]) == ("2026-01-01T10:00:01.123456Z", 1000)
    assert server.get(job_path("team", "load"))["outputs"] == outputs


def test_datasets_are_added_to_a_job_with_its_run(server: MarquezServer) -> None:
    server.put_job("team", "load")
    run = server.create_run("team", "load")["id"]
    for name in ("in1", "in2"):
        server.put_table("team", name)
    for name in ("out1", "out2"):
        server.put_table("team", name, runId=run)
    inputs, outputs = ([{"namespace": "team", "name": f"{kind}{n}"} for n in (1, 2)] for kind in ("in", "out"))
    server.put_job("team", "load", inputs=inputs, outputs=outputs, runId=run)
    assert server.get(job_path("team", "load"))["inputs"] == inputs


def test_lists_of_jobs_and_runs(server: MarquezServer) -> None:
    server.put_job("team", "load")
    first = server.create_run("team", "load")["id"]
    second = server.create_run("team", "load")["id"]
    server.mark_run(second, "start", at="2026-01-01T10:00:00Z")
    server.mark_run(second, "complete", at="2026-01-01T10:01:00Z")
    third = server.create_run("team", "load")["id"]
    server.mark_run(third, "start", at="2026-01-01T10:02:00Z")
    assert names(server.read_list("/namespaces/team/jobs")["jobs"]) == ["load"]
    runs = server.read_list(f"{job_path('team', 'load')}/runs")
    assert [run["id"] for run in runs["runs"]] == [third, second, first]


def test_a_run_can_be_created_once_and_of_known_jobs(server: MarquezServer) -> None:
    server.put_job("team", "load")
    run = run_id()
    server.create_run("team", "load", id=run)
    server.create_run("team", "load", 400, id=run)
    server.create_run("team", "NotExists", 404)


@pytest.mark.parametrize(("action", "state"), [("fail", "FAILED"), ("abort", "ABORTED"), ("start", "RUNNING")])
def test_states_of_a_run_with_a_given_id(server: MarquezServer, action: str, state: str) -> None:
    server.put_job("team", "load")
    run = server.create_run("team", "load", id=run_id())["id"]
    assert server.mark_run(run, action)["state"] == state
    assert server.get(f"/jobs/runs/{run}")["state"] == state


def test_a_job_is_not_linked_to_the_run_of_another(server: MarquezServer) -> None:
    for name in ("load", "other"):
        server.put_job("team", name)
    run = server.create_run("team", "other")["id"]
    assert server.put_job("team", "load", 404, runId=run)["code"] == 404
    assert server.put_job("team", "load", 404, runId=NO_RUN)["code"] == 404
    missing = [{"namespace": "team", "name": "does-not-exist"}]
    assert server.put_job("team", "load", 404, inputs=missing, outputs=missing)["code"] == 404


def test_versions_of_a_job(server: MarquezServer) -> None:
    server.put_job("team", "load")
    first = server.create_run("team", "load", id=run_id())["id"]
    server.mark_run(first, "complete")
    path = f"{job_path('team', 'load')}/versions"
    (version,) = server.get(path, limit=5)["versions"]
    assert version["latestRun"]["id"] == first
    assert (version["inputs"], version["outputs"]) == ([], [])
    assert server.get(f"{path}/{version['version']}") == version
    second = server.create_run("team", "load", id=run_id())["id"]
    server.put_job("team", "load", location="https://git.example.org/moved", runId=second)
    server.mark_run(second, "complete")
    versions = server.get(path, limit=5)["versions"]
    assert [item["latestRun"]["id"] for item in versions] == [second, first]


def test_a_version_of_a_job_has_its_datasets(server: MarquezServer) -> None:
    server.put_table("team", "clicks", type="STREAM", sourceName="kafka")
    server.put_table("team", "orders", **TABLE)
    inputs, outputs = ([{"namespace": "team", "name": name}] for name in ("clicks", "orders"))
    server.put_job("team", "load", inputs=inputs, outputs=outputs)
    run = server.create_run("team", "load", id=run_id())["id"]
    server.put_table("team", "orders", **TABLE, runId=run)
    server.mark_run(run, "complete")
    path = f"{job_path('team', 'load')}/versions"
    version = server.get(path)["versions"][0]
    assert (version["latestRun"]["id"], version["inputs"], version["outputs"]) == (run, inputs, outputs)
    assert server.get(f"{path}/{version['id']['version']}") == version


def test_a_deleted_job_is_not_listed(server: MarquezServer) -> None:
    server.put_job("team", "load")
    assert names(server.read_list("/namespaces/team/jobs")["jobs"]) == ["load"]
    server.write("DELETE", job_path("team", "load"))
    assert server.read_list("/namespaces/team/jobs")["jobs"] == []


# Datasets that a run both reads and writes.


def update_output(server: MarquezServer, steps: str) -> Any:
    """Return the run of a job that reads and writes a table, after steps: (d)ataset, (j)ob, (s)tart and (c)omplete."""
    table: Any = {**TABLE, "sourceName": "db"}
    body: Any = {key: [{"namespace": "team", "name": "both"}] for key in ("inputs", "outputs")}
    server.put_table("team", "both", **table)
    server.put_job("team", "update", **body)
    run = server.create_run("team", "update")["id"]
    actions = {
        "d": lambda: server.put_table("team", "both", **table, runId=run),
        "j": lambda: server.put_job("team", "update", **body, runId=run),
        "s": lambda: server.mark_run(run, "start"),
        "c": lambda: server.mark_run(run, "complete"),
    }
    for step in steps:
        actions[step]()
    return server.get(f"/jobs/runs/{run}")


@pytest.mark.parametrize("steps", ["dc", "sjdc", "scj", "jdc"])
def test_a_run_reads_another_version_than_it_writes(server: MarquezServer, steps: str) -> None:
    run = update_output(server, steps)
    inputs, outputs = (
        [item["datasetVersionId"] for item in run[key]] for key in ("inputDatasetVersions", "outputDatasetVersions")
    )
    assert [(item["namespace"], item["name"]) for item in (*inputs, *outputs)] == [("team", "both")] * 2
    assert inputs[0]["version"] != outputs[0]["version"]


# Lists of an index that is behind.


def test_a_list_waits_for_the_index(tmp_path: Path) -> None:
    with run_marquez_server(tmp_path / "home", is_eager=False) as server:
        server.put_table("team", "orders", **TABLE)
        server.index_new_events()
        server.put_table("team", "totals", **TABLE)
        path = "/api/v1/namespaces/team/datasets"
        assert names(server.client.get(path).json()["datasets"]) == ["orders"]
        indexing = Timer(0.2, server.index_new_events)
        indexing.start()
        response = server.client.get(path, headers={"prefer": "wait=30"})
        indexing.join()
        assert names(response.json()["datasets"]) == ["orders", "totals"]
        server.put_table("team", "more", **TABLE)
        # Not longer than it may.
        assert len(server.client.get(path, headers={"prefer": "wait=1"}).json()["datasets"]) == 2
