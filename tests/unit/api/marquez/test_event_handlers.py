"""Tests of Marquez's deprecated PUT and POST endpoints: they become events, and their results are visible at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from starlette.testclient import TestClient
from tests.unit.api.marquez.conftest import Shop, event, run_id

from clew.api.marquez.write_handlers import create_log_store
from clew.cli.serving import build_app

TEAM = "/namespaces/team"
NO_RUN = run_id("none")
FIELDS = [{"name": "id", "type": "INTEGER", "tags": ["KEY"], "description": "The key"}, {"name": "price"}]
TABLE = {"type": "DB_TABLE", "physicalName": "public.orders", "sourceName": "db", "fields": FIELDS, "tags": ["PII"]}
JOB = {"type": "BATCH", "inputs": [{"namespace": "team", "name": "orders"}], "outputs": []}


class CollectingShop(Shop):
    """A data directory whose API accepts events."""

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.client = TestClient(build_app(self.home, create_log_store(self.home.log))[0])

    def define(self) -> None:
        """Define a namespace, a source, a dataset and a job."""
        self.request("PUT", TEAM, body={"ownerName": "ann"})
        self.request("PUT", "/sources/db", body={"type": "POSTGRESQL", "connectionUrl": "postgres://db:5432/shop"})
        self.request("PUT", f"{TEAM}/datasets/orders", body=TABLE)
        self.request("PUT", f"{TEAM}/jobs/load", body=JOB)


@pytest.fixture
def team(tmp_path: Any) -> Iterator[CollectingShop]:
    shop = CollectingShop(tmp_path / "home")
    with shop.client:
        yield shop


def test_a_new_server_without_an_index_accepts_and_shows_everything(team: CollectingShop) -> None:
    team.define()
    paths = [f"{TEAM}/datasets/orders", f"{TEAM}/jobs/load"]
    before = [team.get(path) for path in paths]
    assert before[0] | {"createdAt": "", "updatedAt": "", "facets": {}} == {
        "id": {"namespace": "team", "name": "orders"},
        "type": "DB_TABLE",
        "name": "orders",
        "physicalName": "public.orders",
        "createdAt": "",
        "updatedAt": "",
        "namespace": "team",
        "sourceName": "db",
        "fields": [
            {"name": "id", "type": "INTEGER", "tags": ["KEY"], "description": "The key"},
            {"name": "price", "type": None, "tags": [], "description": None},
        ],
        "tags": ["PII"],
        "lastModifiedAt": None,
        "lastLifecycleState": "",
        "description": None,
        "currentVersion": before[0]["currentVersion"],
        "columnLineage": None,
        "facets": {},
        "deleted": False,
    }
    assert (before[1]["inputs"], before[1]["type"]) == (JOB["inputs"], "BATCH")
    team.index_new_events()
    assert [team.get(path) for path in paths] == before
    assert [item["name"] for item in team.get(f"{TEAM}/datasets")["datasets"]] == ["orders"]
    assert team.get(f"{TEAM}/datasets/orders/versions")["totalCount"] == 1


def test_runs_through_all_states(team: CollectingShop) -> None:
    team.define()
    times = {"nominalStartTime": "2026-01-01T00:00:00Z", "nominalEndTime": "2026-01-02T00:00:00Z"}
    run = team.request("POST", f"{TEAM}/jobs/load/runs", 201, body={**times, "args": {"retry": "2"}})
    assert (run["state"], run["args"]["retry"], run["nominalEndTime"]) == ("NEW", "2", times["nominalEndTime"])
    path = f"/jobs/runs/{run['id']}"
    started = team.request("POST", f"{path}/start", at="2026-01-01T00:00:05Z")
    assert (started["state"], started["startedAt"]) == ("RUNNING", "2026-01-01T00:00:05Z")
    assert started["inputDatasetVersions"][0]["datasetVersionId"]["name"] == "orders"
    completed = team.request("POST", f"{path}/complete", at="2026-01-01T00:01:05Z")
    assert (completed["state"], completed["durationMs"]) == ("COMPLETED", 60_000)
    assert completed == team.get(path)
    team.index_new_events()
    assert team.get(path) == completed
    assert [item["id"] for item in team.get(f"{TEAM}/jobs/load/runs")["runs"]] == [run["id"]]
    assert team.get(f"{TEAM}/jobs/load")["latestRun"]["id"] == run["id"]


@pytest.mark.parametrize(("action", "state"), [("fail", "FAILED"), ("abort", "ABORTED")])
def test_a_run_with_a_given_id_fails_or_is_aborted(team: CollectingShop, action: str, state: str) -> None:
    team.define()
    run = str(uuid4())
    assert team.request("POST", f"{TEAM}/jobs/load/runs", 201, body={"id": run})["id"] == run
    team.request("POST", f"{TEAM}/jobs/load/runs", 400, body={"id": run})
    assert team.request("POST", f"/jobs/runs/{run}/{action}")["state"] == state


def test_a_dataset_of_a_run_is_its_output(team: CollectingShop) -> None:
    team.define()
    run = team.request("POST", f"{TEAM}/jobs/load/runs", 201, body={})["id"]
    team.request("PUT", f"{TEAM}/datasets/totals", body={**TABLE, "runId": run})
    team.request(
        "PUT", f"{TEAM}/jobs/load", body={**JOB, "outputs": [{"namespace": "team", "name": "totals"}], "runId": run}
    )
    done = team.request("POST", f"/jobs/runs/{run}/complete")
    (output,) = done["outputDatasetVersions"]
    version = output["datasetVersionId"]["version"]
    document = team.get(f"{TEAM}/datasets/totals/versions/{version}")
    assert (document["createdByRun"]["id"], document["physicalName"]) == (run, "public.orders")


def test_a_stream_has_its_type(team: CollectingShop) -> None:
    team.define()
    body = {"type": "STREAM", "physicalName": "orders", "sourceName": "db", "schemaLocation": "http://schemas/orders"}
    assert team.request("PUT", f"{TEAM}/datasets/topic", body=body)["type"] == "STREAM"
    assert team.request("PUT", f"{TEAM}/jobs/follow", body={**JOB, "type": "STREAM"})["type"] == "STREAM"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("PUT", "/namespaces/none/datasets/t", TABLE, 404, "Namespace 'none' not found."),
        ("PUT", f"{TEAM}/datasets/t", {**TABLE, "sourceName": "none"}, 404, "Source 'none' not found."),
        ("PUT", f"{TEAM}/datasets/t", {**TABLE, "runId": NO_RUN}, 404, "Run '"),
        ("PUT", f"{TEAM}/jobs/j", {**JOB, "inputs": [{"namespace": "team", "name": "none"}]}, 404, "Dataset 'none'"),
        ("PUT", f"{TEAM}/jobs/j", {**JOB, "runId": NO_RUN}, 404, "Run '"),
        ("POST", f"{TEAM}/jobs/none/runs", {}, 404, "Job 'none' not found."),
        ("POST", f"{TEAM}/jobs/load/runs", {"id": "x"}, 400, "run 'x' must be a UUID."),
        ("POST", f"/jobs/runs/{NO_RUN}/start", None, 404, "Run '"),
    ],
)
def test_unknown_names_are_404(
    team: CollectingShop, method: str, path: str, body: Any, status: int, message: str
) -> None:
    team.define()
    assert team.request(method, path, status, body=body)["message"].startswith(message)


@pytest.mark.parametrize("body", [{}, {**TABLE, "type": "VIEW"}, {**TABLE, "fields": [{"type": "x"}]}, []])
def test_an_invalid_body_is_422(team: CollectingShop, body: Any) -> None:
    team.define()
    assert team.request("PUT", f"{TEAM}/datasets/t", 422, body=body)["errors"]


def test_a_server_that_does_not_collect_says_so(empty_shop: Shop) -> None:
    empty_shop.send([event("START", 1, "one")])
    for method, path in (
        ("PUT", f"{TEAM}/datasets/t"),
        ("PUT", f"{TEAM}/jobs/j"),
        ("POST", f"{TEAM}/jobs/j/runs"),
        ("POST", f"/jobs/runs/{run_id('one')}/complete"),
        ("POST", "/lineage"),
    ):
        assert "`clew serve --collect`" in empty_shop.request(method, path, 405, body={})["message"]
