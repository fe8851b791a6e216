"""Tests that every interface reports the same facts about a run, a job and a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id

from clew.data_dir import IndexLocation
from clew.mcp.describe_tools import describe_reply
from clew.query.service import LineageService

NAMESPACE = "postgres://db:5432"
TAGS = {"tags": {"tags": [{"key": "gold", "value": "yes"}, {"key": "pii", "field": "id"}]}}
OWNERSHIP = {"ownership": {"owners": [{"name": "team:shop", "type": "MAINTAINER"}]}}
DOCUMENTATION = {"documentation": {"description": "Orders by day"}}
ASSERTIONS = {"dataQualityAssertions": {"assertions": [{"assertion": "not_null", "success": False, "column": "id"}]}}
STATISTICS = {"outputStatistics": {"rowCount": 12}}


@pytest.fixture
def facts(tmp_path: Path, index_location: IndexLocation) -> Iterator[Shop]:
    """Index two jobs that write a dataset with a version, a schema, tags, owners and column lineage."""
    raw = dataset("raw", "id day", inputFacets=ASSERTIONS)
    facets = {**TAGS, **OWNERSHIP, **DOCUMENTATION, "version": {"datasetVersion": "7"}}
    first = dataset("orders", "id day", {"id": [("raw", "id")]}, facets=facets, outputFacets=STATISTICS)
    second = dataset("orders", "id day", {"day": [("raw", "day")]}, facets=facets)
    job_facets = {**TAGS, **OWNERSHIP, "jobType": {"processingType": "BATCH", "integration": "DBT", "jobType": "MODEL"}}
    shop = Shop(tmp_path / "home", index_location)
    shop.send(
        [
            event("START", 1, "load", inputs=[raw], outputs=[first], job_facets=job_facets),
            event("COMPLETE", 2, "load", parent="day", inputs=[raw], outputs=[first], job_facets=job_facets),
            event("START", 3, "fix", "fix", inputs=[raw]),
            event("COMPLETE", 4, "fix", "fix", inputs=[raw], outputs=[second]),
        ]
    )
    with shop.client:
        yield shop


class Interfaces:
    """Documents of one entity from the Marquez API, `/api/v2`, its page and MCP."""

    def __init__(self, shop: Shop, kind: str, name: str) -> None:
        space = NAMESPACE if kind == "dataset" else "shop"
        is_run = kind == "run"
        self.v1 = shop.get(
            f"/jobs/runs/{name}" if is_run else f"/namespaces/{space.replace('/', '%2F')}/{kind}s/{name}"
        )
        node = f"{kind}:{name}" if is_run else f"{kind}:{space}:{name}"
        self.v2 = self._get(shop, f"runs/{name}") if is_run else self._get(shop, kind, nodeId=node)
        self.page = (
            self._get(shop, f"pages/run/{name}")
            if is_run
            else self._get(shop, f"pages/{kind}", namespace=space, name=name)
        )
        with LineageService.open(shop.home.index) as service:
            reply = describe_reply(service.describe(node), 10_000)
        self.mcp = reply.data.model_dump(mode="json", exclude_none=True)[kind]

    @staticmethod
    def _get(shop: Shop, path: str, **params: str) -> Any:
        response = shop.client.get(f"/api/v2/{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()


def test_a_run(facts: Shop) -> None:
    run = Interfaces(facts, "run", run_id("load"))
    assert run.v1["state"] == run.v2["state"] == run.page["run"]["state"] == run.mcp["state"] == "COMPLETED"
    for time in ("startedAt", "endedAt"):
        assert run.v1[time] == run.v2[time] == run.page["run"][time]
    assert run.v1["durationMs"] == run.v2["durationMs"] == run.mcp["duration_ms"] == 60_000
    assert run.v1["nominalStartTime"] == run.v2["nominalStartAt"] == run.page["nominalStart"]
    assert run.v1["args"]["run_id"] == run.v2["parentRunId"] == run.page["parent"]["runUuid"] == run.mcp["parent"]
    for v1_key, key, mcp_key in (
        ("inputDatasetVersions", "inputs", "reads"),
        ("outputDatasetVersions", "outputs", "writes"),
    ):
        names = [item["datasetVersionId"]["name"] for item in run.v1[v1_key]]
        assert names == [item["name"] for item in run.v2[key]]
        assert names == [item["dataset"]["name"] for item in run.page[key]]
        assert [f"dataset:{NAMESPACE}:{name}" for name in names] == run.mcp[mcp_key]
        assert [item["rowCount"] for item in run.v2[key]] == [item["rowCount"] for item in run.page[key]]
        assert [item["version"] for item in run.v2[key]] == [item["version"] for item in run.page[key]]
        assert [item["facets"] for item in run.v1[v1_key]] == [item["facets"] for item in run.page[key]]
    assert run.page["inputs"][0]["facets"] == ASSERTIONS
    assert run.page["outputs"][0]["facets"] == STATISTICS
    assert run.v1["facets"] == run.v2["facets"] == run.page["facets"]
    assert sorted(run.v1["facets"]) == run.mcp["facets"]


def test_a_job(facts: Shop) -> None:
    job = Interfaces(facts, "job", "daily.load")
    assert job.v1["labels"] == [job.v2["type"], job.v2["integration"]] == [job.page["kind"], job.page["integration"]]
    assert job.mcp["type"] == job.v2["type"]
    assert job.v1["updatedAt"] == job.v2["lastEventAt"] == job.page["at"]
    latest = job.v1["latestRun"]
    assert latest["id"] == job.v2["latestRun"]["id"] == job.page["runs"][0]["runUuid"] == job.mcp["latest_run"]
    assert latest["state"] == job.v2["latestRun"]["state"] == job.page["runs"][0]["state"] == job.mcp["latest_state"]
    assert job.v1["parentJobName"] == job.v2["parent"]["name"] == "daily"
    for key, mcp_key in (("inputs", "reads"), ("outputs", "writes")):
        names = [item["name"] for item in job.v1[key]]
        assert names == [item["name"] for item in job.v2[key]] == [item["node"]["name"] for item in job.page[key]]
        assert [f"dataset:{NAMESPACE}:{name}" for name in names] == job.mcp[mcp_key]
    assert job.v1["tags"] == [tag["key"] for tag in job.v2["tags"] if tag["field"] is None] == ["gold"]
    assert job.v1["facets"] == job.v2["facets"] == job.page["facets"]
    assert sorted(job.v1["facets"]) == job.mcp["facets"]
    assert job.page["facets"]["ownership"] == OWNERSHIP["ownership"]


def test_a_dataset(facts: Shop) -> None:
    orders = Interfaces(facts, "dataset", "orders")
    assert orders.v1["updatedAt"] == orders.v2["lastEventAt"] == orders.page["at"] == orders.mcp["last_event_at"]
    assert orders.v1["description"] == orders.v2["description"] == orders.mcp["description"] == "Orders by day"
    assert (
        orders.v1["deleted"] is orders.v2["isDeleted"] is orders.page["isDeleted"] is orders.mcp["is_deleted"] is False
    )
    fields = [(field["name"], field["type"]) for field in orders.v1["fields"]]
    assert fields == [("id", "int"), ("day", "int")]
    for columns in (orders.v2["columns"], orders.page["columns"], orders.mcp["columns"]):
        assert fields == [(column["name"], column["type"]) for column in columns]
    assert orders.v1["tags"] == [tag["key"] for tag in orders.v2["tags"] if tag["field"] is None] == ["gold"]
    assert orders.mcp["tags"] == ["gold=yes", "pii"]
    assert (
        orders.v1["fields"][0]["tags"] == [tag["key"] for tag in orders.v2["tags"] if tag["field"] == "id"] == ["pii"]
    )
    assert orders.v1["facets"] == orders.v2["facets"] == orders.page["facets"]
    assert sorted(orders.v1["facets"]) == orders.mcp["facets"]
    assert orders.v2["version"] == orders.page["facetVersion"] == "7"
    writers = [f"job:shop:{job['name']}" for job in orders.v2["writtenBy"]]
    assert writers == sorted(f"job:shop:{job['node']['name']}" for job in orders.page["producers"])
    assert writers == orders.mcp["written_by"] == ["job:shop:daily.load", "job:shop:fix"]


def test_column_sources_of_a_dataset_include_all_jobs(facts: Shop) -> None:
    orders = Interfaces(facts, "dataset", "orders")
    v1 = {item["name"]: [source["field"] for source in item["inputFields"]] for item in orders.v1["columnLineage"]}
    page = {item["name"]: [source["column"] for source in item["sources"]] for item in orders.page["columns"]}
    assert v1 == page == {"id": ["id"], "day": ["day"]}


def test_versions_of_a_dataset(facts: Shop) -> None:
    path = f"/namespaces/{NAMESPACE.replace('/', '%2F')}/datasets/orders/versions"
    v1, page = facts.get(path), Interfaces(facts, "dataset", "orders").page
    assert v1["totalCount"] == page["versionTotal"] == 2
    assert [item["createdByRun"]["id"] for item in v1["versions"]] == [item["runUuid"] for item in page["versions"]]
    assert [item["createdAt"] for item in v1["versions"]] == [item["at"] for item in page["versions"]]
    assert [item["job"]["name"] for item in page["versions"]] == ["fix", "daily.load"]


def test_tests_of_a_run_and_of_its_input(facts: Shop) -> None:
    run, raw = Interfaces(facts, "run", run_id("load")), Interfaces(facts, "dataset", "raw")
    (result,) = run.v2["assertions"]
    assert (result["assertion"], result["column"], result["success"]) == ("not_null", "id", False)
    assert run.page["assertions"] == [result]
    assert run.page["run"]["tests"] == {"failed": 1, "passed": 0, "total": 1}
    assert [(test["test"], test["result"]) for test in run.mcp["tests"]] == [("not_null", "failed")]
    assert [item["facets"] for item in run.v2["inputs"]] == [item["facets"] for item in run.page["inputs"]]
    # Both jobs test the dataset. Marquez returns input facets among the facets of a dataset.
    assert [item["runUuid"] for item in raw.v2["assertions"]] == [run_id("fix"), run_id("load")]
    assert raw.page["assertions"] == raw.v2["assertions"]
    assert raw.v2["inputFacets"] == raw.page["inputFacets"] == ASSERTIONS
    assert raw.v1["facets"] == {**raw.v2["facets"], **ASSERTIONS}
    assert sorted(raw.v1["facets"]) == raw.mcp["facets"]
    assert [test["run"] for test in raw.mcp["tests"]] == [run_id("fix"), run_id("load")]


@pytest.fixture
def lifecycle(tmp_path: Path, index_location: IndexLocation) -> Iterator[Shop]:
    """Index a run whose events each have a part of its metadata."""
    location = {"sourceCodeLocation": {"type": "git", "url": "https://example.org/repo", "version": "abc123"}}
    stale = {"ownership": {"owners": [{"name": "eve"}]}, "tags": {"tags": [{"key": "old"}]}}
    totals = dataset("totals", facets={"lifecycleStateChange": {"lifecycleStateChange": "CREATE"}, **DOCUMENTATION})
    shop = Shop(tmp_path / "home", index_location)
    shop.send(
        [
            event(
                "START", 1, "load", inputs=[dataset("orders", "id")], outputs=[totals], job_facets={**location, **stale}
            ),
            event("RUNNING", 2, "load", outputs=[dataset("audit", outputFacets={"outputStatistics": {"size": 1}})]),
            event("RUNNING", 3, "load", outputs=[dataset("audit", outputFacets=STATISTICS)], run_facets=TAGS),
            event(
                *("COMPLETE", 4, "load"),
                inputs=[dataset("customers", "name", inputFacets=ASSERTIONS)],
                outputs=[
                    dataset("totals", "total", facets={"version": {"datasetVersion": "7"}}, outputFacets=STATISTICS)
                ],
                job_facets={**OWNERSHIP, "tags": {"_deleted": True}},
            ),
        ]
    )
    with shop.client:
        yield shop


def test_metadata_of_all_events_of_a_run_is_added(lifecycle: Shop) -> None:
    run, job = Interfaces(lifecycle, "run", run_id("load")), Interfaces(lifecycle, "job", "daily.load")
    inputs, outputs = ["customers", "orders"], ["audit", "totals"]
    for names, v1_key, key, mcp_key in (
        (inputs, "inputDatasetVersions", "inputs", "reads"),
        (outputs, "outputDatasetVersions", "outputs", "writes"),
    ):
        assert names == [item["datasetVersionId"]["name"] for item in run.v1[v1_key]]
        assert names == [item["name"] for item in run.v2[key]] == [item["dataset"]["name"] for item in run.page[key]]
        assert [f"dataset:{NAMESPACE}:{name}" for name in names] == run.mcp[mcp_key]
        assert names == [item["name"] for item in job.v1[key]] == [item["name"] for item in job.v2[key]]
        assert names == sorted(item["node"]["name"] for item in job.page[key])
        assert [item["facets"] for item in run.v1[v1_key]] == [item["facets"] for item in run.v2[key]]
    # A facet replaces the earlier one of the same name as a whole, or deletes it.
    assert [item["facets"] for item in run.page["outputs"]] == [STATISTICS, STATISTICS]
    assert run.v1["facets"].keys() == run.v2["facets"].keys() == run.page["facets"].keys() == {"nominalTime", "tags"}
    assert job.v1["facets"] == job.v2["facets"] == job.page["facets"] == run.page["jobFacets"]
    assert job.v1["facets"].keys() == {"sourceCodeLocation", "ownership"}
    assert job.v1["facets"]["ownership"] == OWNERSHIP["ownership"]
    assert job.v1["location"] == "https://example.org/repo"


def test_metadata_of_an_output_is_added(lifecycle: Shop) -> None:
    totals = Interfaces(lifecycle, "dataset", "totals")
    assert totals.v1["facets"] == totals.v2["facets"] == totals.page["facets"]
    assert totals.v1["facets"].keys() == {
        *("dataSource", "schema", "version", "documentation", "lifecycleStateChange"),
    }
    assert totals.v1["description"] == totals.v2["description"] == "Orders by day"
    assert [column["name"] for column in totals.page["columns"]] == ["total"]
    assert totals.page["versionTotal"] == 1
    path = f"/namespaces/{NAMESPACE.replace('/', '%2F')}/datasets/totals/versions"
    assert [item["facets"] for item in lifecycle.get(path)["versions"]] == [totals.v1["facets"]]
