"""Marquez's own Python client against `clew serve`: every call that reads, and those that write and are still used."""

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
from tests.support.fixtures import PostgresPlaces
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop

from clew.data_dir import DataDir

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
EVENTS = 400


@contextmanager
def serving(home: DataDir, *options: str) -> Iterator[str]:
    where = ["--home", str(home.root), *([] if home.database_url is None else ["--index", home.database_url])]
    command = [sys.executable, "-m", "clew", "serve", "--port", "0", *where, *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"(http://\S+:\d+)/", process.stderr.readline())
        assert found is not None
        try:
            yield found[1]
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    home = tmp_path_factory.mktemp("marquez") / "home"
    is_file = request.param == "sqlite"
    shop = Shop(home, None if is_file else PostgresPlaces(request.getfixturevalue("postgres"), home).empty("client"))
    shop.send(islice(GENERATE["events"](10_000, 7), EVENTS))
    with shop.client:
        yield shop


def test_every_call_of_the_client(shop: Shop) -> None:
    with serving(shop.home) as url:
        client = MarquezClient(url)
        asked = {
            "namespace": client.list_namespaces()["namespaces"][0]["name"],
            "job": next(job for job in client.list_jobs("scheduler-1")["jobs"] if job["outputs"] and job["inputs"]),
        }
        job = asked["job"]
        output = job["outputs"][0]
        dataset = client.get_dataset(output["namespace"], output["name"])
        assert client.get_namespace(asked["namespace"])["name"] == asked["namespace"]
        assert client.get_job("scheduler-1", job["name"])["id"] == job["id"]
        runs = client.list_job_runs("scheduler-1", job["name"])
        assert client.get_job_run(runs["runs"][0]["id"])["id"] == runs["runs"][0]["id"]
        assert client.get_source(dataset["sourceName"]) in client.list_sources()["sources"]
        read_versions(client, output, dataset)
        read_columns(client, job, output, dataset)
        write(client, output, dataset)
        with pytest.raises(APIError):
            client.get_job("scheduler-1", "none")


def read_versions(client: MarquezClient, output: dict[str, str], dataset: dict[str, Any]) -> None:
    name = output["namespace"], output["name"]
    assert output["name"] in [one["name"] for one in client.list_datasets(output["namespace"], limit=1000)["datasets"]]
    versions = client.list_dataset_versions(*name)["versions"]
    assert [client.get_dataset_version(*name, one["version"]) for one in versions] == versions
    assert dataset["currentVersion"] == (versions[0]["version"] if versions else None)


def read_columns(client: MarquezClient, job: dict[str, Any], output: dict[str, str], dataset: dict[str, Any]) -> None:
    name, field = (output["namespace"], output["name"]), dataset["fields"][0]["name"]
    by_field = client.get_column_lineage_by_dataset_field(*name, field, with_downstream=True)
    by_dataset = client.get_column_lineage_by_dataset(*name)
    by_job = client.get_column_lineage_by_job(job["namespace"], job["name"], depth=3)
    node = f"datasetField:{':'.join(name)}:{field}"
    for graph in (by_field, by_dataset, by_job):
        assert node in [one["id"] for one in graph["graph"]]


def write(client: MarquezClient, output: dict[str, str], dataset: dict[str, Any]) -> None:
    name, field = (output["namespace"], output["name"]), dataset["fields"][0]["name"]
    assert client.create_tag("GOLD", "The best there is") in client.list_tags()["tags"]
    assert client.tag_dataset(*name, "GOLD")["tags"] == ["GOLD"]
    assert client.tag_dataset_field(*name, field, "PII")["fields"][0]["tags"] == ["PII"]
    assert client.create_namespace("team", "ann")["ownerName"] == "ann"


def test_events_are_taken_on_the_same_port(shop: Shop) -> None:
    event = next(islice(GENERATE["events"](10_000, 8), 300, None))
    with serving(shop.home, "--collect") as url:
        sent = httpx2.post(f"{url}/api/v1/lineage", content=event)
        tagged = MarquezClient(url).create_tag("BOTH", "Events and tags")
        listed = httpx2.get(f"{url}/api/v1/jobs?limit=1").json()
    shop.take()
    assert (sent.status_code, tagged["name"], len(listed["jobs"])) == (201, "BOTH", 1)
    found = shop.client.get("/api/v1/events/lineage?limit=1000").content
    assert event in found
