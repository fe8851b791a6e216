"""Tests that a key limited to namespaces sees nothing of other namespaces, on any route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from uuid import NAMESPACE_OID, uuid5

import pytest
from starlette.testclient import TestClient
from tests.support.fixtures import Clock, NotebookSession
from tests.unit.api.test_app_equivalence import marquez_paths, page_paths, v2_paths
from tests.unit.pipeline.conftest import LocalRanges

from clew.api.middleware import AuthMiddleware
from clew.cli.serving import build_app, build_limited_app
from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.segments import end_position, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.visibility import HIDDEN_NAMESPACE
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import BatchIngestor
from clew.server.auth import Authenticator, KeyFile, Scope

# All names of the other namespace have this text; the second one names nothing. Suggestions are similar to neither.
OTHER, ABSENT = "qqq", "jjj"


def identifier(team: str, name: str) -> dict[str, str]:
    return {"namespace": f"{team}-space", "name": f"{team}.{name}"}


def table(team: str, name: str, *sources: tuple[str, str], **facets: Any) -> dict[str, Any]:
    """Return a dataset of a team with one column, which is computed from the columns of `sources`."""
    inputs = [
        {
            **identifier(*source),
            "field": f"{source[0]}_column",
            "transformations": [{"type": "DIRECT", "subtype": "IDENTITY", "description": f"from {source[0]}"}],
        }
        for source in sources
    ]
    lineage = {"columnLineage": {"fields": {f"{team}_column": {"inputFields": inputs}}}} if sources else {}
    assertions = [{"assertion": f"{team}_test", "success": True, "column": f"{team}_column"}]
    return {
        **identifier(team, name),
        "facets": {
            "schema": {"fields": [{"name": f"{team}_column", "type": "int", "description": f"{team} text"}]},
            "dataSource": {"name": f"{team}-source", "uri": f"postgres://{team}:5432"},
            "ownership": {"owners": [{"name": f"{team} owner"}]},
            **lineage,
            **facets,
        },
        "inputFacets": {"dataQualityAssertions": {"assertions": assertions}},
        "outputFacets": {"outputStatistics": {"rowCount": 7}},
    }


def run_event(
    minute: int,
    team: str,
    job: str,
    inputs: list[Any],
    outputs: list[Any],
    parent: tuple[str, str] | None = None,
    kind: str = "COMPLETE",
) -> dict[str, Any]:
    run_id = str(uuid5(NAMESPACE_OID, f"{team} {job}"))
    facets: dict[str, Any] = {"errorMessage": {"message": f"{team} failed", "programmingLanguage": "SQL"}}
    if parent is not None:
        facets["parent"] = {
            "run": {"runId": str(uuid5(NAMESPACE_OID, " ".join(parent)))},
            "job": identifier(*parent),
        }
    facets["jobDependencies"] = {"upstream": [{"job": identifier(OTHER, "load")}, {"job": identifier("alpha", "load")}]}
    return {
        "eventTime": f"2026-01-01T10:{minute:02}:00Z",
        "eventType": kind,
        "producer": f"https://{team}.example",
        "run": {"runId": run_id, "facets": facets},
        "job": {**identifier(team, job), "facets": {"sql": {"query": f"select {team}_column"}}},
        "inputs": inputs,
        "outputs": outputs,
    }


def events() -> Iterator[dict[str, Any]]:
    """Yield events of two teams that use each other's datasets: alpha.raw, qqq.middle, alpha.report."""
    yield run_event(1, "alpha", "load", [], [table("alpha", "raw")], kind="START")
    yield run_event(2, "alpha", "load", [], [table("alpha", "raw")])
    yield run_event(3, "qqq", "load", [], [table("qqq", "raw")])
    yield run_event(
        4,
        "qqq",
        "build",
        [table("alpha", "raw"), table("qqq", "raw")],
        [table("qqq", "middle", ("alpha", "raw"), ("qqq", "raw")), table("alpha", "gift", ("qqq", "raw"))],
        parent=("alpha", "load"),
    )
    yield run_event(
        5,
        "alpha",
        "report",
        [table("qqq", "middle")],
        [table("alpha", "report", ("qqq", "middle"))],
        ("qqq", "all"),
    )
    alias = {"symlinks": {"identifiers": [{**identifier(OTHER, "link"), "type": "TABLE"}]}}
    previous = {"lifecycleStateChange": "RENAME", "previousIdentifier": identifier(OTHER, "old")}
    declared = {"eventTime": "2026-01-01T10:10:00Z", "producer": "https://example.com"}
    yield {**declared, "dataset": table("alpha", "linked", **alias)}
    yield {**declared, "dataset": table("alpha", "renamed", lifecycleStateChange=previous)}
    yield {
        **declared,
        "dataset": table("qqq", "linked", symlinks={"identifiers": [{**identifier("alpha", "link"), "type": "T"}]}),
    }
    yield {**declared, "dataset": table("alpha", "view", ("qqq", "raw"))}
    for team, other in (("alpha", "qqq"), ("qqq", "alpha")):
        io = {"inputs": [table(other, "raw")], "outputs": [table(team, "declared"), table(other, "declared")]}
        yield {**declared, "job": identifier(team, "declared"), **io}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Ingest the events of both teams and a notebook."""
    root = tmp_path_factory.mktemp("teams") / "home"
    database = None if request.param == "sqlite" else request.getfixturevalue("postgres_schemas").empty("teams").text
    home = DataDir(root, None, database).create()
    Lake(home.lake).create_or_validate()
    notebook = NotebookSession(Clock(), "qqq0001", "qqq")
    notebook.operation("load", "qqq@1", {"qqq_column": [("qqq.csv", "qqq_column")]}, code="pd.read_csv('qqq.csv')")
    notebook.run("COMPLETE")
    bodies = [json.dumps(event).encode() for event in (*events(), *(event for _, event in notebook.events))]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in [*bodies, b'{"qqq": 1}'])
    ranges: Any = LocalRanges.from_ranges(split_ranges(home.log, 0, end_position(home.log), 1 << 30))
    with IndexWriter(home.index) as index, BatchIngestor(Lake(home.lake), index, "app") as ingestor:
        ingestor(ranges, 0)
    return home


@pytest.fixture(scope="module")
def clients(home: DataDir, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, TestClient]]:
    """Return clients with an unrestricted key, and with one that is limited to the namespaces of alpha."""
    keys = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    admin = keys.add("admin", [Scope.ADMIN])
    limited = keys.add("alpha", [Scope.READ, Scope.WRITE], ["alpha"])
    app = AuthMiddleware(build_app(home)[0], Authenticator(keys), lambda names: build_limited_app(home, names))
    with TestClient(app, headers={"authorization": f"Bearer {admin}"}) as everything:
        for path in (f"tags/{OTHER}-job", f"namespaces/{OTHER}-space", f"sources/{OTHER}-source2"):
            body = {"ownerName": OTHER, "description": OTHER, "type": "x", "connectionUrl": OTHER}
            if not path.startswith("tags"):
                assert everything.put(f"/api/v1/{path}", json=body).status_code == 200
        part = TestClient(app, headers={"authorization": f"Bearer {limited}"}, raise_server_exceptions=False)
        for client in (everything, part):
            while not client.get("/api/v2/search?q=a").json()["isComplete"]:
                pass
        yield everything, part


def all_paths(client: TestClient) -> list[str]:
    """Return every read path for a sample of the entities that a client can see."""

    def get_json(path: str) -> Any:
        response = client.get(path)
        assert response.status_code == 200, (path, response.text)
        return response.json()

    extra = (
        "/api/v2/pages/events",
        "/api/v2/pages/events?stream=runtime",
        "/api/v2/pages/events?stream=rejected",
        *(f"/api/v2/pages/events/lineage/{item['seq']}" for item in get_json("/api/v2/pages/events")["items"]),
        "/api/v2/pages/health",
        "/api/v2/facets?nodeId=dataset:clew:notes",
        "/api/v2/openapi.json",
    )
    return list(dict.fromkeys((*marquez_paths(get_json), *v2_paths(get_json), *page_paths(get_json), *extra)))


def test_no_response_has_a_name_of_another_namespace(clients: tuple[TestClient, TestClient]) -> None:
    everything, part = clients
    leaks, failures = {}, {}
    for path in dict.fromkeys((*all_paths(part), *all_paths(everything))):
        response = part.get(path)
        if response.status_code >= 500:
            failures[path] = response.text[:300]
        if OTHER not in unquote(path) and OTHER in response.text:
            leaks[path] = response.text[max(0, response.text.index(OTHER) - 200) :][:400]
    assert failures == {}, json.dumps(failures, indent=1)
    assert leaks == {}, json.dumps(leaks, indent=1)


def test_an_entity_of_another_namespace_is_as_absent(clients: tuple[TestClient, TestClient]) -> None:
    everything, part = clients
    differences = {}
    for path in all_paths(everything):
        if OTHER in path:
            hidden, absent = part.get(path), part.get(path.replace(OTHER, ABSENT))
            if (hidden.status_code, hidden.text.replace(OTHER, ABSENT)) != (absent.status_code, absent.text):
                differences[path] = hidden.text[:300], absent.text[:300]
    assert differences == {}, json.dumps(differences, indent=1)


def test_runs_of_another_namespace_are_not_found(clients: tuple[TestClient, TestClient]) -> None:
    run = uuid5(NAMESPACE_OID, "qqq build")
    for path in (f"v1/jobs/runs/{run}", f"v1/jobs/runs/{run}/facets?type=run", f"v2/runs/{run}", f"v2/pages/run/{run}"):
        assert clients[0].get(f"/api/{path}").status_code == 200, path
        assert clients[1].get(f"/api/{path}").status_code == 404, path
    assert clients[1].get("/api/v2/notebook-runs").json() == {"runs": [], "total": 0}
    assert clients[1].get("/api/v2/notebook-runs/qqq0001").status_code == 404


def test_own_entities_are_complete(clients: tuple[TestClient, TestClient]) -> None:
    everything, part = clients
    jobs = [job["name"] for job in part.get("/api/v1/jobs").json()["jobs"]]
    assert sorted(jobs) == ["alpha.declared", "alpha.load", "alpha.report"]
    path = "/api/v1/namespaces/alpha-space/datasets/alpha.raw"
    assert part.get(path).json() == everything.get(path).json()
    counts = part.get("/api/v2/pages/activity").json()["counts"]
    assert (counts["jobs"], counts["runs"], counts["sessions"]) == (3, 2, 0)
    events = part.get("/api/v1/events/lineage?limit=100").json()
    assert (events["totalCount"], {event["job"]["name"] for event in events["events"]}) == (
        3,
        {"alpha.load", "alpha.report"},
    )


def test_lineage_passes_through_opaque_nodes(clients: tuple[TestClient, TestClient]) -> None:
    part = clients[1]
    node = "nodeId=dataset:alpha-space:alpha.raw"
    nodes = part.get(f"/api/v2/lineage?{node}&direction=downstream").json()["nodes"]
    names = {item["name"] for item in nodes if item["namespace"] != HIDDEN_NAMESPACE}
    assert "alpha.report" in names
    opaque = [item for item in nodes if item["namespace"] == HIDDEN_NAMESPACE]
    assert opaque
    assert all(item["name"].startswith("hidden-") for item in opaque)
    assert "alpha.report" in part.get(f"/api/v2/impact?{node}").text
    upstream = part.get("/api/v2/lineage?nodeId=datasetField:alpha-space:alpha.report:alpha_column&direction=upstream")
    columns = [item for item in upstream.json()["nodes"] if item["kind"] == "column"]
    assert {item["namespace"] for item in columns} == {"alpha-space", HIDDEN_NAMESPACE}
    assert part.get(f"/api/v1/lineage?{node}").status_code == 200


def test_a_limited_key_cannot_change_annotations(clients: tuple[TestClient, TestClient]) -> None:
    assert clients[1].put("/api/v1/namespaces/alpha-space", json={"ownerName": "me"}).status_code == 403
