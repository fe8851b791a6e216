"""Tests of `clew serve` with Marquez's Python client: all reads, and the writes still in use."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import httpx2
import pytest
from marquez_client import MarquezClient
from marquez_client.errors import APIError
from marquez_client.models import DatasetId, DatasetType, JobType
from tests.support.fixtures import PostgresSchemas
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop

from clew.data_dir import DataDir

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
EVENTS = 400


@contextmanager
def run_server(home: DataDir, *options: str) -> Iterator[str]:
    location = ["--home", str(home.root), *([] if home.database_url is None else ["--index", home.database_url])]
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", *location, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        match = re.search(r"(http://\S+:\d+)/", process.stderr.readline())
        assert match is not None
        try:
            yield match[1]
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    home = tmp_path_factory.mktemp("marquez") / "home"
    is_file = request.param == "sqlite"
    shop = Shop(home, None if is_file else PostgresSchemas(request.getfixturevalue("postgres"), home).empty("client"))
    shop.send(islice(GENERATE["generate_events"](10_000, 7), EVENTS))
    with shop.client:
        yield shop


def test_all_client_calls(shop: Shop) -> None:
    with run_server(shop.home) as url:
        client = MarquezClient(url)
        names = {
            "namespace": client.list_namespaces()["namespaces"][0]["name"],
            "job": next(job for job in client.list_jobs("scheduler-1")["jobs"] if job["outputs"] and job["inputs"]),
        }
        job = names["job"]
        output = job["outputs"][0]
        dataset = client.get_dataset(output["namespace"], output["name"])
        assert client.get_namespace(names["namespace"])["name"] == names["namespace"]
        assert client.get_job("scheduler-1", job["name"])["id"] == job["id"]
        runs = client.list_job_runs("scheduler-1", job["name"])
        assert client.get_job_run(runs["runs"][0]["id"])["id"] == runs["runs"][0]["id"]
        assert client.get_source(dataset["sourceName"]) in client.list_sources()["sources"]
        assert len(client.list_events(limit=3)["events"]) == 3
        check_versions(client, output, dataset)
        check_column_lineage(client, job, output, dataset)
        check_writes(client, output, dataset)
        with pytest.raises(APIError):
            client.get_job("scheduler-1", "none")


def check_versions(client: MarquezClient, output: dict[str, str], dataset: dict[str, Any]) -> None:
    name = output["namespace"], output["name"]
    assert output["name"] in [
        item["name"] for item in client.list_datasets(output["namespace"], limit=1000)["datasets"]
    ]
    versions = client.list_dataset_versions(*name)["versions"]
    assert [client.get_dataset_version(*name, item["version"]) for item in versions] == versions
    assert dataset["currentVersion"] == (versions[0]["version"] if versions else None)


def check_column_lineage(
    client: MarquezClient, job: dict[str, Any], output: dict[str, str], dataset: dict[str, Any]
) -> None:
    name, field = (output["namespace"], output["name"]), dataset["fields"][0]["name"]
    by_field = client.get_column_lineage_by_dataset_field(*name, field, with_downstream=True)
    by_dataset = client.get_column_lineage_by_dataset(*name)
    by_job = client.get_column_lineage_by_job(job["namespace"], job["name"], depth=3)
    node = f"datasetField:{':'.join(name)}:{field}"
    for graph in (by_field, by_dataset, by_job):
        assert node in [item["id"] for item in graph["graph"]]


def check_writes(client: MarquezClient, output: dict[str, str], dataset: dict[str, Any]) -> None:
    name, field = (output["namespace"], output["name"]), dataset["fields"][0]["name"]
    assert client.create_tag("GOLD", "The best there is") in client.list_tags()["tags"]
    assert client.tag_dataset(*name, "GOLD")["tags"] == ["GOLD"]
    assert client.tag_dataset_field(*name, field, "PII")["fields"][0]["tags"] == ["PII"]
    assert client.create_namespace("team", "ann")["ownerName"] == "ann"


def corpus() -> Iterator[bytes]:
    """Yield the events of the public corpora, if there are any."""
    shared = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared"))
    for path in sorted((shared / "corpus").glob("*/*.jsonl")):
        yield from (line for line in path.read_bytes().splitlines() if line.strip())


def test_all_reads_of_the_public_events(tmp_path: Path) -> None:
    bodies = list(corpus())
    if not bodies:
        pytest.skip("there is no corpus")
    shop = Shop(tmp_path / "home")
    shop.send(bodies)
    calls = Counter[str]()
    with run_server(shop.home) as url:
        client = MarquezClient(url)

        def call(method: str, *arguments: Any, **options: Any) -> Any:
            calls[method] += 1
            return getattr(client, method)(*arguments, **options)

        for source in call("list_sources", limit=1000)["sources"]:
            assert call("get_source", source["name"]) == source
        for namespace in (item["name"] for item in call("list_namespaces", limit=1000)["namespaces"]):
            assert call("get_namespace", namespace)["name"] == namespace
            for job in call("list_jobs", namespace, limit=1000)["jobs"]:
                assert call("get_job", namespace, job["name"]) == job
                for run in call("list_job_runs", namespace, job["name"], limit=1000)["runs"]:
                    # The client refuses others itself.
                    if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", run["id"]):
                        assert call("get_job_run", run["id"]) == run
                read_column_lineage(call, "job", job["id"])
            for dataset in call("list_datasets", namespace, limit=1000)["datasets"]:
                read_dataset(call, dataset)
    assert len(calls) == 15
    assert all(calls.values())


def read_dataset(call: Callable[..., Any], dataset: dict[str, Any]) -> None:
    """Read a dataset, its versions and its column lineage."""
    name = dataset["namespace"], dataset["name"]
    assert call("get_dataset", *name) == dataset
    for version in call("list_dataset_versions", *name, limit=1000)["versions"]:
        assert call("get_dataset_version", *name, version["version"]) == version
    read_column_lineage(call, "dataset", dataset["id"])
    for field in dataset["fields"]:
        read_column_lineage(call, "dataset_field", dataset["id"], field["name"])


def read_column_lineage(call: Callable[..., Any], kind: str, name: dict[str, str], *field: str) -> None:
    """Read column lineage; 404 is the answer for a node without any."""
    try:
        graph = call(f"get_column_lineage_by_{kind}", name["namespace"], name["name"], *field, with_downstream=True)
    except APIError as error:
        response = getattr(error.__cause__, "response")  # noqa: B009  # of an HTTPError
        assert response.json()["message"] == "Could not find node"
    else:
        assert isinstance(graph["graph"], list)


def test_deprecated_client_calls(tmp_path: Path) -> None:
    """Every write of the client, on a server without any event."""
    key = {"namespace": "team", "name": "in"}
    with run_server(DataDir(tmp_path / "home").create(), "--collect") as url, catch_warnings():
        simplefilter("ignore", DeprecationWarning)
        client = MarquezClient(url)
        assert client.create_namespace("team", "ann", "All of ours")["description"] == "All of ours"
        assert client.create_source("db", "postgresql", "postgresql://db:5432/shop")["type"] == "POSTGRESQL"
        fields = [{"name": "id", "type": "INTEGER", "description": "The key"}]
        table = client.create_dataset(
            "team", "in", DatasetType.DB_TABLE, "public.in", "db", fields=fields, tags=["PII"]
        )
        assert (table["physicalName"], table["tags"], len(table["fields"])) == ("public.in", ["PII"], 1)
        location = "http://schemas/1"
        stream = client.create_dataset("team", "s", DatasetType.STREAM, "s", "db", schema_location=location)
        assert stream["schemaLocation"] == location
        job = client.create_job("team", "load", JobType.BATCH, "https://git/x", [DatasetId(**key)], context={"a": "b"})
        assert job["inputs"] == [key]
        states = ("started", "RUNNING"), ("completed", "COMPLETED"), ("failed", "FAILED"), ("aborted", "ABORTED")
        for action, state in states:
            run = client.create_job_run("team", "load", run_args={"retry": "1"}, mark_as_running=action == "completed")
            getattr(client, f"mark_job_run_as_{action}")(run["id"])
            assert client.get_job_run(run["id"])["state"] == state
        client.create_dataset("team", "out", DatasetType.DB_TABLE, "out", "db", run_id=run["id"])
        assert client.get_dataset("team", "out")["sourceName"] == "db"


def test_collects_events_on_the_same_port(shop: Shop) -> None:
    event = next(islice(GENERATE["generate_events"](10_000, 8), 300, None))
    with run_server(shop.home, "--collect") as url:
        response = httpx2.post(f"{url}/api/v1/lineage", content=event)
        tag = MarquezClient(url).create_tag("BOTH", "Events and tags")
        page = httpx2.get(f"{url}/api/v1/jobs?limit=1").json()
    shop.index_new_events()
    assert (response.status_code, tag["name"], len(page["jobs"])) == (201, "BOTH", 1)
    stored_events = shop.client.get("/api/v1/events/lineage?limit=1000").content
    assert event in stored_events
