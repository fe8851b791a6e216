"""Tests of changes through Marquez's API: visible at once, logged, and restored by a rebuild."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event

from clew.api.marquez import read_handlers
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter
from clew.query.entities import catalog
from clew.query.entities.annotations import Annotations

ORDERS = "/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets/public.orders"
LOAD = "/namespaces/shop/jobs/daily.load"


def responses_over_time(shop: Shop, path: str, status: int = 200) -> list[Any]:
    """Return the responses of a path at once, after indexing, and after a rebuild."""
    responses = [shop.get(path, status)]
    shop.index_new_events()
    responses.append(shop.get(path, status))
    shop.rebuild()
    return [*responses, shop.get(path, status)]


def test_tags_a_dataset_a_field_and_a_job(shop: Shop) -> None:
    assert shop.request("POST", f"{ORDERS}/tags/PII")["tags"] == ["PII"]
    tagged = shop.request("POST", f"{ORDERS}/fields/price/tags/money")
    assert [field["tags"] for field in tagged["fields"]] == [[], ["MONEY"]]
    assert shop.request("POST", f"{LOAD}/tags/nightly run")["tags"] == ["nightly run"]
    assert [document["tags"] for document in responses_over_time(shop, ORDERS)] == [["PII"]] * 3
    assert [document["fields"][1]["tags"] for document in responses_over_time(shop, ORDERS)] == [["MONEY"]] * 3
    assert [document["tags"] for document in responses_over_time(shop, LOAD)] == [["nightly run"]] * 3
    assert [tag["name"] for tag in shop.get("/tags")["tags"]] == ["MONEY", "PII", "nightly run"]


def test_unindexed_changes_are_read_once_per_request(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def read_annotations(*args: Any) -> Annotations:
        reads.append(args)
        return Annotations(*args)

    monkeypatch.setattr(catalog, "Annotations", read_annotations)
    for number in range(20):
        reads.clear()
        shop.request("PUT", f"/namespaces/n{number}", body={"ownerName": "me"})
        assert len(reads) <= 2
    assert len(shop.get("/namespaces")["namespaces"]) > 20
    reads.clear()
    assert {"n0", "n19"} <= {namespace["name"] for namespace in shop.get("/namespaces")["namespaces"]}
    # The changes are those of the previous request.
    assert reads == []


def test_removes_a_tag(shop: Shop) -> None:
    for method in ("POST", "DELETE"):
        shop.request(method, f"{ORDERS}/tags/PII")
        shop.request(method, f"{ORDERS}/fields/price/tags/money")
        shop.request(method, f"{LOAD}/tags/slow")
    assert [(document["tags"], document["fields"][1]["tags"]) for document in responses_over_time(shop, ORDERS)] == [
        ([], [])
    ] * 3
    assert shop.get(LOAD)["tags"] == []


def test_merges_tags_of_producers_and_users(shop: Shop) -> None:
    shop.request("POST", f"{ORDERS}/tags/PII")
    output = dataset("public.orders", facets={"tags": {"tags": [{"key": "gold", "value": "true"}]}})
    shop.send([event("COMPLETE", 30, "load-3", outputs=[output])])
    assert shop.get(ORDERS)["tags"] == ["PII", "gold"]
    assert shop.request("DELETE", f"{ORDERS}/tags/gold")["tags"] == ["PII"]
    shop.send([event("COMPLETE", 31, "load-4", outputs=[output])])
    assert shop.get(ORDERS)["tags"] == ["PII"]


def test_creates_a_tag_with_a_description(shop: Shop) -> None:
    assert shop.request("PUT", "/tags/PII", body={"description": "Of a person"})["description"] == "Of a person"
    assert responses_over_time(shop, "/tags") == [{"tags": [{"name": "PII", "description": "Of a person"}]}] * 3


@pytest.mark.parametrize(
    ("path", "node"), [(ORDERS, "dataset:postgres://db:5432:public.orders"), (LOAD, "job:shop:daily.load")]
)
def test_a_deleted_entity_is_hidden_until_its_next_event(shop: Shop, path: str, node: str) -> None:
    list_path = path.rpartition("/")[0]
    key = list_path.rpartition("/")[2]
    before = shop.get(list_path)["totalCount"]
    shop.request("DELETE", path)
    assert responses_over_time(shop, path, 404)[0]["code"] == 404
    page = shop.get(list_path)
    assert page["totalCount"] == len(page[key]) == before - 1
    nodes = [node["id"] for node in shop.get("/lineage", nodeId="job:shop:daily.sum")["graph"]]
    assert node not in nodes
    shop.send([event("COMPLETE", 40, "load-9", outputs=[dataset("public.orders", "id price")])])
    assert shop.get(path)["name"] in path
    assert shop.get(list_path)["totalCount"] == before


def test_deleting_a_namespace_hides_its_jobs(shop: Shop) -> None:
    assert shop.request("DELETE", "/namespaces/shop")["isHidden"]
    assert shop.get("/namespaces/shop/jobs") == {"jobs": [], "totalCount": 0}
    assert [namespace["isHidden"] for namespace in responses_over_time(shop, "/namespaces/shop")] == [True] * 3
    shop.send([event("START", 50, "load-9")])
    assert not shop.get("/namespaces/shop")["isHidden"]


def test_creates_a_namespace_and_a_source(shop: Shop) -> None:
    namespace = shop.request("PUT", "/namespaces/team-a", body={"ownerName": "ann", "description": "All of ours"})
    assert (namespace["ownerName"], namespace["description"], namespace["isHidden"]) == ("ann", "All of ours", False)
    assert [document["ownerName"] for document in responses_over_time(shop, "/namespaces/team-a")] == ["ann"] * 3
    shop.request("PUT", "/sources/lake", body={"type": "s3", "connectionUrl": "s3://lake"})
    assert [
        (document["type"], document["connectionUrl"]) for document in responses_over_time(shop, "/sources/lake")
    ] == [("S3", "s3://lake")] * 3


def test_put_of_a_namespace_keeps_what_it_does_not_mention(shop: Shop) -> None:
    first = shop.request("PUT", "/namespaces/team-a", body={"ownerName": "ann", "description": "All of ours"})
    assert shop.request("PUT", "/namespaces/team-a", body={"ownerName": "bob"})["description"] == "All of ours"
    changed = shop.request("PUT", "/namespaces/team-a", body={"description": None})
    assert (changed["ownerName"], changed["description"]) == ("bob", None)
    assert changed["createdAt"] == first["createdAt"] <= changed["updatedAt"]
    assert shop.request("PUT", "/namespaces/new", 422, body={"description": "x"}) == {
        "errors": ["ownerName must not be null"]
    }


def test_a_change_is_an_event_in_the_log(shop: Shop) -> None:
    start = end_position(shop.home.log)
    shop.request("POST", f"{ORDERS}/tags/PII")
    parts = split_ranges(shop.home.log, start, end_position(shop.home.log), 1 << 20)
    (body,) = [decode_record(line).body for part in parts for _, line in read_lines(part)]
    assert json.loads(body)["dataset"]["namespace"] == "clew"
    shop.index_new_events()
    assert "clew" not in [namespace["name"] for namespace in shop.get("/namespaces")["namespaces"]]


def test_a_change_is_503_while_another_process_writes_the_log(shop: Shop) -> None:
    with LogWriter(shop.home.log):
        response = shop.client.post(f"/api/v1{ORDERS}/tags/PII")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "clew serve --collect" in response.json()["message"]
    assert shop.get(ORDERS)["tags"] == []


class FixedClock(datetime):
    """A clock that stands still, since intervals of statistics end now."""

    @classmethod
    def now(cls, tz: tzinfo | None = UTC) -> datetime:  # type: ignore[override]
        return datetime(2026, 1, 2, 10, 30, tzinfo=tz)


def test_the_dataset_of_changes_is_hidden(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_handlers, "datetime", FixedClock)
    paths = (
        "/api/v1/namespaces",
        "/api/v1/namespaces/clew/datasets",
        "/api/v1/search?q=note",
        "/api/v1/stats/datasets?period=DAY",
        "/api/v2beta/search/datasets?q=note",
        "/api/v2/datasets",
        "/api/v2/search?q=notes",
        "/api/v2/search?q=PII",
        "/api/v2/pages/activity",
        "/api/v2/pages/datasets",
        "/api/v2/pages/search?text=note",
    )
    before = [get_json(shop, path) for path in paths]
    shop.request("POST", f"{ORDERS}/tags/PII")
    shop.index_new_events()
    assert [get_json(shop, path) for path in paths] == before
    shop.get("/namespaces/clew/datasets/notes", 404)
    assert shop.get("/lineage", nodeId="dataset:clew:notes") == {"graph": []}


def get_json(shop: Shop, path: str) -> Any:
    response = shop.client.get(path).json()
    return (
        {key: value for key, value in response.items() if key != "indexedUpTo"}
        if isinstance(response, dict)
        else response
    )


def test_a_user_namespace_named_clew_is_visible(shop: Shop) -> None:
    run_event = {**event("COMPLETE", 20, "own"), "job": {"namespace": "clew", "name": "nightly"}}
    shop.send([{**run_event, "outputs": [{"namespace": "clew", "name": "books"}]}])
    shop.request("POST", f"{ORDERS}/tags/PII")
    shop.index_new_events()
    assert shop.get("/namespaces/clew")["createdAt"] == "2026-01-01T10:20:00Z"
    assert [entity["name"] for entity in shop.get("/namespaces/clew/jobs")["jobs"]] == ["nightly"]
    page = shop.get("/namespaces/clew/datasets")
    assert ([entity["name"] for entity in page["datasets"]], page["totalCount"]) == (["books"], 1)
