"""Tests of errors of Marquez's API: status codes, messages, unavailable and locked indexes."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id, send_sample_events

from clew.api.marquez.app import read_routes
from clew.api.marquez.http import preferred_wait
from clew.data_dir import DatabaseUrl, IndexLocation
from clew.index.backends.postgres.connection import libpq_url, parse_schema_name

PG = "postgres%3A%2F%2Fdb%3A5432"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/namespaces/nowhere", 404, "Namespace 'nowhere' not found."),
        ("/sources/none", 404, "Source 'none' not found."),
        ("/namespaces/shop/jobs/none", 404, "Job 'none' not found."),
        ("/namespaces/shop/jobs/none/runs", 404, "Job 'none' not found."),
        (f"/namespaces/{PG}/datasets/none", 404, "Dataset 'none' not found."),
        ("/namespaces/nowhere/datasets", 404, "Namespace 'nowhere' not found."),
        ("/namespaces/nowhere/datasets/none", 404, "Namespace 'nowhere' not found."),
        ("/namespaces/nowhere/jobs/none/runs", 404, "Namespace 'nowhere' not found."),
        (f"/namespaces/{PG}/datasets/public.orders/versions/1", 404, "Dataset version '1' not found."),
        ("/namespaces/shop/jobs/daily.sum/versions/1", 404, "Job version '1' not found."),
        ("/jobs/runs/%F0%9F%A7%B5", 404, "Run '🧵' not found."),
        ("/jobs/runs/x/facets?type=run", 404, "Run 'x' not found."),
        ("/jobs/runs/x/facets", 400, "query param type must not be null"),
        ("/jobs/runs/x/facets?type=cat", 400, "query param type must be one of [RUN, JOB, DATASET]"),
        ("/jobs?limit=-1", 400, "query param limit must be greater than or equal to 0"),
        ("/jobs?limit=many", 400, "query param limit must be a number"),
        ("/jobs?offset=-9", 400, "query param offset must be greater than or equal to 0"),
        ("/jobs?lastRunStates=DEAD", 400, "query param lastRunStates must be one of"),
        ("/lineage", 400, "query param nodeId must not be null"),
        ("/lineage?nodeId=orders", 400, "'orders' is not a node id."),
        ("/lineage?nodeId=dataset:", 400, "'dataset:' is not a node id."),
        ("/lineage?nodeId=table:a:b", 400, "'table:a:b' is not a node id."),
        ("/lineage?nodeId=dataset:a:b", 404, "Node 'dataset:a:b' not found."),
        ("/lineage?nodeId=run:1", 404, "Node 'run:1' not found."),
        ("/lineage?nodeId=job:shop:daily.sum&depth=x", 400, "query param depth must be a number"),
        ("/column-lineage?nodeId=datasetField:a:b:c", 404, "Could not find node"),
        ("/column-lineage?nodeId=run:1", 404, "Could not find node"),
        (
            f"/column-lineage?nodeId=dataset:{PG}:public.totals%23{run_id('x')}&withDownstream=true",
            400,
            "Node version cannot be specified when withDownstream is set to true",
        ),
        ("/runlineage/upstream?runId=x", 404, "Run 'x' not found."),
        ("/events/lineage?before=yesterday", 400, "query param before must be an instant in ISO-8601"),
        ("/events/lineage?sortDirection=up", 400, "query param sortDirection must be one of [ASC, DESC]"),
        ("/stats/jobs", 400, "query param period must not be null"),
        ("/stats/jobs?period=WEEK", 400, "query param timezone must not be null"),
        ("/stats/jobs?period=WEEK&timezone=Mars/Base", 400, "query param timezone must name a time zone"),
        ("/search", 400, "query param q must not be null"),
        ("/search?q=a&after=now", 400, "query param after must be a date: YYYY-MM-DD"),
        ("/event", 404, "HTTP 404 Not Found"),
    ],
)
def test_error_messages(shared_shop: Shop, path: str, status: int, message: str) -> None:
    body = shared_shop.get(path, status)
    assert message in (body["message"] if "message" in body else body["errors"][0])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/namespaces/%F0%9F%A7%B5", {"ownerName": "me"}, 400),
        ("PUT", "/namespaces/a", {}, 422),
        ("PUT", "/namespaces/a", ["ownerName"], 422),
        ("PUT", "/sources/a", {"type": 1}, 422),
        ("POST", f"/namespaces/{PG}/datasets/none/tags/a", None, 404),
        ("POST", f"/namespaces/{PG}/datasets/public.orders/fields/none/tags/a", None, 404),
        ("DELETE", "/namespaces/none", None, 404),
        ("DELETE", "/namespaces/shop/jobs/none", None, 404),
        ("PUT", "/namespaces/shop/jobs/a", {"type": "BATCH"}, 405),
        ("POST", "/namespaces/shop/jobs/a/runs", {}, 405),
        ("POST", "/jobs/runs/a/start", None, 405),
        ("POST", "/jobs", None, 405),
        ("DELETE", "/tags", None, 405),
    ],
)
def test_rejects_an_invalid_change(shop: Shop, method: str, path: str, body: Any, status: int) -> None:
    assert shop.request(method, path, status, body)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("postgres://db:5432", "1st:table"), ("a:b:c", "d:e"), ("s3://bucket", "/2026/01:02"), ("x", "7")],
)
def test_node_ids_with_colons_and_digits(empty_shop: Shop, namespace: str, name: str) -> None:
    output = {**dataset("t"), "namespace": namespace, "name": name}
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[output])])
    response = empty_shop.get("/lineage", nodeId=f"dataset:{namespace}:{name}")
    assert [node["id"] for node in response["graph"]] == [f"dataset:{namespace}:{name}", "job:shop:daily.load"]


def test_parameters_out_of_range(shared_shop: Shop) -> None:
    assert shared_shop.get("/events/lineage", after="2999-01-01T00:00:00Z") == {"events": [], "totalCount": 0}
    assert shared_shop.get("/jobs", limit=10**30, offset=10**30)["jobs"] == []
    assert len(shared_shop.get("/lineage", nodeId="job:shop:daily.sum", depth=10**30)["graph"]) == 5


def test_a_missing_index_is_503(tmp_path: Path, postgres_schemas: Any) -> None:
    for index_location in (None, postgres_schemas.missing("nothing")):
        body = Shop(tmp_path / "home", index_location).get("/jobs", 503)
        assert "There is no index at" in body["message"]


def test_an_unreachable_database_is_503(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "home", DatabaseUrl("postgresql://me:secret@127.0.0.1:1/x", tmp_path))
    for path in ("/api/v1/jobs", "/api/v2beta/search/jobs?q=a", "/api/v2/datasets", "/api/v2/pages/activity"):
        response = shop.client.get(path)
        assert response.status_code == 503
        assert "Cannot connect to the index postgresql://me@127.0.0.1:1/x: " in response.text


def test_reconnects_after_lost_connections(tmp_path: Path, postgres_schemas: Any) -> None:
    application_name = f"clew-{os.getpid()}"
    index_location = DatabaseUrl(f"{postgres_schemas.empty().text}&application_name={application_name}", tmp_path)
    shop = send_sample_events(Shop(tmp_path / "home", index_location))
    paths = ("/api/v1/jobs", "/api/v1/lineage?nodeId=job:shop:daily.sum", "/api/v2/datasets", "/api/v2/pages/activity")
    with shop.client as client:
        before = [client.get(path).content for path in paths]
        with psycopg.connect(libpq_url(postgres_schemas.empty("other"), 5)) as other:
            query = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"
            assert len(other.execute(query, (application_name,)).fetchall()) >= 1
        assert [client.get(path).content for path in paths] == before


def test_a_rebuilt_index_is_used(shop: Shop) -> None:
    assert shop.get("/jobs")["totalCount"] == 4
    shop.rebuild()
    assert shop.get("/jobs")["totalCount"] == 4


def test_a_corrupt_index_file_is_503(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.home.index_file.write_bytes(b"no database, but a file that is as long as any")
    assert "cannot be read: file is not a database" in shop.get("/jobs", 503)["message"]


@contextmanager
def lock_index(index_location: IndexLocation) -> Iterator[None]:
    """Hold an exclusive lock on the index."""
    if isinstance(index_location, Path):
        with closing(sqlite3.connect(index_location)) as other:
            other.execute("pragma locking_mode = exclusive")
            other.execute("begin immediate")
            other.execute("insert into meta values ('x', 'y')")
            other.execute("commit")
            yield
    else:
        with psycopg.connect(libpq_url(index_location, 5)) as other:
            other.execute(f"lock table {parse_schema_name(index_location)}.meta in access exclusive mode")
            yield


def test_a_locked_index_is_503_without_waiting(shop: Shop) -> None:
    paths = ("/api/v1/jobs", "/api/v2/datasets", "/api/v2/notebook-runs", "/api/v2/pages/activity")
    with lock_index(shop.home.index):
        responses = [shop.client.get(path) for path in paths]
    assert responses[0].headers["retry-after"] == "1"
    for response in responses:
        assert response.status_code == 503
        assert re.search("database is locked|canceling statement due to lock timeout", response.text)
    assert [shop.client.get(path).status_code for path in paths] == [200] * len(paths)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_input_causes_a_server_error(shared_shop: Shop, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(read_routes(Path())))
    text = st.text(max_size=12)
    parts = [data.draw(text) if part == "*" else part for part in route.pattern]
    names = st.sampled_from("limit offset depth type period timezone q nodeId runId before after sort filter".split())
    values = text | st.sampled_from(["dataset:a:b", "-1", "run", "DAY", "WEEK", "99999999999999999999"])
    params = data.draw(st.dictionaries(names, values, max_size=4))
    url_path = "/".join(quote(part, safe="") for part in parts)
    response = shared_shop.client.get(f"/api/{url_path}", params=params)
    assert response.status_code < 500


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], 2.5),
        ([(b"accept", b"wait=9")], 2.5),
        ([(b"prefer", b"wait=10")], 10),
        ([(b"prefer", b"respond-async, Wait = 3")], 3),
        ([(b"prefer", b"wait=0")], 0),
        ([(b"prefer", b"wait=99999999999999")], 60),
        ([(b"prefer", b"wait=-1")], 2.5),
        ([(b"prefer", b"wait=\xb2")], 2.5),
    ],
)
def test_preferred_wait(headers: list[tuple[bytes, bytes]], seconds: float) -> None:
    assert preferred_wait(headers, 2.5) == seconds
