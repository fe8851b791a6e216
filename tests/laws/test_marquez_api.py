"""Properties of the Marquez API: documents of generated and public events equal those computed in plain Python."""

from __future__ import annotations

import json
import runpy
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.paths import ROOT
from tests.unit.api.marquez.conftest import Shop

from clew.events.openlineage import parse_time

pytestmark = pytest.mark.slow

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
FINAL_STATES = {"COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "ABORTED"}


@pytest.fixture(scope="module")
def generated_events(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, list[Any]]:
    bodies = list(dict.fromkeys(islice(GENERATE["generate_events"](10_000, 11), 600)))
    shop = Shop(tmp_path_factory.mktemp("generated") / "home")
    shop.send(bodies)
    return shop, [json.loads(body) for body in bodies]


def test_run_documents_equal_their_events(generated_events: tuple[Shop, list[Any]]) -> None:
    shop, events = generated_events
    by_run: defaultdict[str, list[Any]] = defaultdict(list)
    for event in events:
        by_run[event["run"]["runId"]].append(event)
    for run, run_events in by_run.items():
        document = shop.get(f"/jobs/runs/{run}")
        assert (document["state"], document["startedAt"], document["endedAt"]) == expected_state(run_events)
        facets: dict[str, Any] = {}
        for event in run_events:
            facets |= event["run"]["facets"]
        assert document["facets"] == facets
        inputs = {(dataset["namespace"], dataset["name"]) for event in run_events for dataset in event["inputs"]}
        assert {dataset_name(dataset) for dataset in document["inputDatasetVersions"]} == inputs


def expected_state(events: list[Any]) -> tuple[str, str | None, str | None]:
    times = {event["eventType"]: parse_time(event["eventTime"]) for event in events}
    final_type = next((kind for kind in FINAL_STATES if kind in times), None)
    starts = [parse_time(event["eventTime"]) for event in events if event["eventType"] == "START"]
    state = "RUNNING" if final_type is None else FINAL_STATES[final_type]
    return state, format_time(min(starts, default=None)), format_time(None if final_type is None else times[final_type])


def format_time(time: Any) -> str | None:
    return None if time is None else time.isoformat().replace("+00:00", "Z")


def dataset_name(version: Any) -> tuple[str, str]:
    return version["datasetVersionId"]["namespace"], version["datasetVersionId"]["name"]


def test_dataset_documents_contain_last_facets(generated_events: tuple[Shop, list[Any]]) -> None:
    shop, events = generated_events
    described: defaultdict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    read_facets: defaultdict[tuple[str, str], defaultdict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        for dataset in (*event["inputs"], *event["outputs"]):
            version = dataset["facets"].get("version", {}).get("datasetVersion", "")
            described[dataset["namespace"], dataset["name"]].append((version, dataset["facets"]))
        for dataset in event["inputs"]:
            for facet, value in dataset.get("inputFacets", {}).items():
                read_facets[dataset["namespace"], dataset["name"]][facet].append(value)
    has_read = False
    for (namespace, name), descriptions in islice(described.items(), 200):
        document = shop.get(f"/namespaces/{quote(namespace, safe='')}/datasets/{name}")
        # Those of the last described version, and those without a version.
        last = next((version for version, _ in reversed(descriptions) if version), "")
        facets: dict[str, Any] = {}
        for version, own in descriptions:
            facets |= own if version in {"", last} else {}
        # As in Marquez, with the input facets of the last reads.
        read = {facet: value for facet, value in document["facets"].items() if facet not in facets}
        assert document["facets"] == {**facets, **read}
        assert all(value in read_facets[namespace, name][facet] for facet, value in read.items())
        has_read |= bool(read)
        assert [field["name"] for field in document["fields"]] == [
            field["name"] for field in facets["schema"]["fields"]
        ]
    assert has_read


def test_all_job_documents_of_the_corpus(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> None:
    shop = Shop(tmp_path_factory.mktemp("corpus") / "home")
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    shop.send([line.strip() for file in files for line in file.read_bytes().splitlines() if line.strip()])
    jobs = shop.get("/jobs", limit=1000)
    assert len(jobs["jobs"]) == jobs["totalCount"] > 20
    for job in jobs["jobs"]:
        path = f"/namespaces/{quote(job['namespace'], safe='')}/jobs/{quote(job['name'], safe='')}"
        assert shop.get(path) == job
        assert shop.get(f"{path}/runs")["totalCount"] >= len(job["latestRuns"] or [])
        nodes = shop.get("/lineage", nodeId=f"job:{job['namespace']}:{job['name']}")["graph"]
        assert f"job:{job['namespace']}:{job['name']}" in [node["id"] for node in nodes]
        for dataset in job["outputs"]:
            namespace, name = quote(dataset["namespace"], safe=""), quote(dataset["name"], safe="")
            versions = shop.get(f"/namespaces/{namespace}/datasets/{name}/versions")["versions"]
            for version in versions:
                assert shop.get(f"/namespaces/{namespace}/datasets/{name}/versions/{version['version']}") == version
