"""Tests of `clew serve` with Marquez's Python client: all reads, and the writes still in use."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx2
import pytest
from marquez_client import MarquezClient
from marquez_client.errors import APIError
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
