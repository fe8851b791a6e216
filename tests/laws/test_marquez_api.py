"""Documents of many events, generated and public, against what plain Python makes of the same events."""

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
ENDED = {"COMPLETE": "COMPLETED", "FAIL": "FAILED", "ABORT": "ABORTED"}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shop, list[Any]]:
    bodies = list(dict.fromkeys(islice(GENERATE["events"](10_000, 11), 600)))
    shop = Shop(tmp_path_factory.mktemp("generated") / "home")
    shop.send(bodies)
    return shop, [json.loads(body) for body in bodies]


def test_every_run_is_as_its_events_say(generated: tuple[Shop, list[Any]]) -> None:
    shop, events = generated
    by_run: defaultdict[str, list[Any]] = defaultdict(list)
    for event in events:
        by_run[event["run"]["runId"]].append(event)
    for run, own in by_run.items():
        found = shop.get(f"/jobs/runs/{run}")
        assert (found["state"], found["startedAt"], found["endedAt"]) == state_of(own)
        facets: dict[str, Any] = {}
        for event in own:
            facets |= event["run"]["facets"]
        assert found["facets"] == facets
        read = {(one["namespace"], one["name"]) for event in own for one in event["inputs"]}
        assert {identity(one) for one in found["inputDatasetVersions"]} == read


def state_of(events: list[Any]) -> tuple[str, str | None, str | None]:
    times = {event["eventType"]: parse_time(event["eventTime"]) for event in events}
    ended = next((kind for kind in ENDED if kind in times), None)
    starts = [parse_time(event["eventTime"]) for event in events if event["eventType"] == "START"]
    state = "RUNNING" if ended is None else ENDED[ended]
    return state, written(min(starts, default=None)), written(None if ended is None else times[ended])


def written(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def identity(one: Any) -> tuple[str, str]:
    return one["datasetVersionId"]["namespace"], one["datasetVersionId"]["name"]


def test_every_dataset_has_the_last_of_its_facets(generated: tuple[Shop, list[Any]]) -> None:
    shop, events = generated
    last: defaultdict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
    for event in events:
        for one in (*event["inputs"], *event["outputs"]):
            version = one["facets"].get("version", {}).get("datasetVersion", "")
            versions = last[one["namespace"], one["name"]]
            # The version that is described last stands last.
            versions[version] = {**versions.pop(version, {}), **one["facets"]}
    for (namespace, name), versions in islice(last.items(), 200):
        found = shop.get(f"/namespaces/{quote(namespace, safe='')}/datasets/{name}")
        facets = list(versions.values())[-1]
        assert found["facets"] == facets
        assert [field["name"] for field in found["fields"]] == [field["name"] for field in facets["schema"]["fields"]]


def test_every_job_of_the_public_events_and_all_around_it_is_answered(
    tmp_path_factory: pytest.TempPathFactory, shared: Path
) -> None:
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
            space, name = quote(dataset["namespace"], safe=""), quote(dataset["name"], safe="")
            versions = shop.get(f"/namespaces/{space}/datasets/{name}/versions")["versions"]
            for one in versions:
                assert shop.get(f"/namespaces/{space}/datasets/{name}/versions/{one['version']}") == one
