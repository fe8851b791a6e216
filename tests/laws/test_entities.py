"""Properties of entities: HTTP APIs, web UI and MCP describe the same datasets, jobs and runs, alone and in lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client
from starlette.testclient import TestClient
from tests.reference.contradictions import contradictory_events

from clew.cli.serving import build_read_app
from clew.data_dir import DataDir
from clew.events.decoding import RejectedError
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.mcp.server import create_server

LOGS = 60
NAME = ("namespace", "name")
# Fields with the same names in a column of v1, of v2 and of the page.
COLUMN = ("name", "type", "description")
IO = ("version", "rowCount", "isImplied", "facets")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an index of contradictory events, with aliases, drops, renames and late events."""
    path = tmp_path_factory.mktemp("entities") / "index.sqlite"
    extractor = ChangeExtractor()
    for seq, body in enumerate(contradictory_events(LOGS)):
        try:
            extractor.add(decode_event("openlineage", body), f"{seq:032x}", seq)
        except RejectedError:
            continue
    with IndexWriter(path) as writer:
        writer.apply("events/0", extractor.changes())
    return path


@pytest.fixture(scope="module")
def client(index: Path) -> Iterator[TestClient]:
    with TestClient(build_read_app(DataDir(index.parent))) as client:
        yield client


def get(client: TestClient, path: str, **params: Any) -> Any:
    response = client.get(f"/api/{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def describe(index: Path, kind: str, ids: list[str]) -> dict[str, Any]:
    """Return the replies of MCP by id."""

    async def call_tools() -> dict[str, Any]:
        async with Client(create_server(index)) as client:
            replies = [(item, await client.call_tool("describe", {"name": item, "max_tokens": 50_000})) for item in ids]
            return {item: (reply.structured_content or {})[kind] for item, reply in replies}

    return asyncio.run(call_tools())


def pick(items: Any, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(item[key] for key in keys) for item in items]


def names(usages: Any) -> list[tuple[Any, ...]]:
    return sorted(pick((usage["node"] for usage in usages), *NAME))


def v1_path(entity: Any, kind: str) -> str:
    return f"v1/namespaces/{quote(entity['namespace'], safe='')}/{kind}/{quote(entity['name'], safe='')}"


def test_all_interfaces_describe_datasets_alike(client: TestClient, index: Path) -> None:
    listed = get(client, "v2/datasets", limit=1000)["datasets"]
    shown = {(item["dataset"]["namespace"], item["dataset"]["name"]): item for item in list_page(client, "datasets")}
    replies = describe(index, "dataset", [item["id"] for item in listed])
    for summary in listed:
        v2, v1 = get(client, "v2/dataset", nodeId=summary["id"]), get(client, v1_path(summary, "datasets"))
        page = get(client, "v2/pages/dataset", **{key: summary[key] for key in NAME})
        reply, item = replies[summary["id"]], shown[summary["namespace"], summary["name"]]
        is_deleted, at = v2["isDeleted"], v2["lastEventAt"]
        others = (summary["isDeleted"], v1["deleted"], page["isDeleted"], item["isDeleted"], reply["is_deleted"])
        assert others == (is_deleted,) * 5, summary
        times = summary["lastEventAt"], v1["updatedAt"], page["at"], item["at"], reply["last_event_at"]
        assert times == (at,) * 5, summary
        assert v1["description"] == reply["description"] == v2["description"]
        columns = pick(v2["columns"], *COLUMN)
        assert pick(v1["fields"], *COLUMN) == pick(reply["columns"], *COLUMN) == columns
        assert pick(page["columns"], *COLUMN)[: len(columns)] == columns
        assert (page["facets"], page["inputFacets"], page["outputFacets"]) == (
            *(v2["facets"], v2["inputFacets"], v2["outputFacets"]),
        )
        assert v1["facets"] == {**v2["facets"], **v2["inputFacets"]}
        assert page["assertions"] == v2["assertions"]
        assert names(page["producers"]) == pick(v2["writtenBy"], *NAME)
        assert names(page["consumers"]) == pick(v2["readBy"], *NAME)


def test_all_interfaces_describe_jobs_alike(client: TestClient, index: Path) -> None:
    listed = get(client, "v2/jobs", limit=1000)["jobs"]
    replies = describe(index, "job", [item["id"] for item in listed])
    for summary in listed:
        v2, v1 = get(client, "v2/job", nodeId=summary["id"]), get(client, v1_path(summary, "jobs"))
        page = get(client, "v2/pages/job", **{key: summary[key] for key in NAME})
        reply, runs = replies[summary["id"]], get(client, "v2/runs", nodeId=summary["id"], limit=1000)["runs"]
        assert v1["description"] == page["description"] == reply["description"] == v2["description"]
        assert summary["lastEventAt"] == v1["updatedAt"] == page["at"] == v2["lastEventAt"]
        assert v1["facets"] == page["facets"] == v2["facets"]
        latest = v2["latestRun"] and v2["latestRun"]["id"]
        assert (v1["latestRun"] and v1["latestRun"]["id"]) == reply["latest_run"] == summary["latestRunId"] == latest
        assert names(page["inputs"]) == pick(v2["inputs"], *NAME)
        assert names(page["outputs"]) == pick(v2["outputs"], *NAME)
        ids = [run["id"] for run in runs]
        assert [run["id"] for run in get(client, f"{v1_path(summary, 'jobs')}/runs", limit=1000)["runs"]][
            : len(ids)
        ] == ids
        assert (page["runTotal"], [run["runUuid"] for run in page["runs"]]) == (len(ids), ids[: len(page["runs"])])


def test_all_interfaces_describe_runs_alike(client: TestClient, index: Path) -> None:
    jobs = get(client, "v2/jobs", limit=1000)["jobs"]
    listed = [run for job in jobs for run in get(client, "v2/runs", nodeId=job["id"], limit=1000)["runs"]]
    replies = describe(index, "run", [f"run:{run['id']}" for run in listed])
    for summary in listed:
        v2, v1 = get(client, f"v2/runs/{summary['id']}"), get(client, f"v1/jobs/runs/{summary['id']}")
        page, reply = get(client, f"v2/pages/run/{summary['id']}"), replies[f"run:{summary['id']}"]
        assert {key: v2[key] for key in summary} == summary
        assert v1["state"] == page["run"]["state"] == reply["state"] == v2["state"]
        assert v1["startedAt"] == reply["started_at"] == v2["startedAt"]
        assert v1["endedAt"] == page["run"]["endedAt"] == v2["endedAt"]
        assert (v1["nominalStartTime"], v1["nominalEndTime"]) == (v2["nominalStartAt"], v2["nominalEndAt"])
        assert v1["facets"] == page["facets"] == v2["facets"]
        assert page["error"] == reply["error"] == v2["error"]
        assert page["assertions"] == v2["assertions"]
        for direction in ("inputs", "outputs"):
            assert [(*pick([item["dataset"]], *NAME)[0], *pick([item], *IO)[0]) for item in page[direction]] == pick(
                v2[direction], *NAME, *IO
            )


def list_page(client: TestClient, kind: str) -> list[Any]:
    items: list[Any] = get(client, f"v2/pages/{kind}", limit=500)["items"]
    return items
