"""What people change by hand: shown at once, in the log, and there again after the index was lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event

from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import LogWriter

ORDERS = "/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets/public.orders"
LOAD = "/namespaces/shop/jobs/daily.load"


def states(shop: Shop, path: str, status: int = 200) -> list[Any]:
    """What a path answers at once, when the pipeline has taken the change, and after a rebuild."""
    found = [shop.get(path, status)]
    shop.take()
    found.append(shop.get(path, status))
    shop.rebuild()
    return [*found, shop.get(path, status)]


def test_tags_of_a_dataset_a_field_and_a_job(shop: Shop) -> None:
    assert shop.ask("POST", f"{ORDERS}/tags/PII")["tags"] == ["PII"]
    tagged = shop.ask("POST", f"{ORDERS}/fields/price/tags/money")
    assert [field["tags"] for field in tagged["fields"]] == [[], ["MONEY"]]
    assert shop.ask("POST", f"{LOAD}/tags/nightly run")["tags"] == ["nightly run"]
    assert [one["tags"] for one in states(shop, ORDERS)] == [["PII"]] * 3
    assert [one["fields"][1]["tags"] for one in states(shop, ORDERS)] == [["MONEY"]] * 3
    assert [one["tags"] for one in states(shop, LOAD)] == [["nightly run"]] * 3
    assert [tag["name"] for tag in shop.get("/tags")["tags"]] == ["MONEY", "PII", "nightly run"]


def test_a_tag_is_taken_off_again(shop: Shop) -> None:
    for method in ("POST", "DELETE"):
        shop.ask(method, f"{ORDERS}/tags/PII")
        shop.ask(method, f"{ORDERS}/fields/price/tags/money")
        shop.ask(method, f"{LOAD}/tags/slow")
    assert [(one["tags"], one["fields"][1]["tags"]) for one in states(shop, ORDERS)] == [([], [])] * 3
    assert shop.get(LOAD)["tags"] == []


def test_tags_that_producers_send_stand_beside_those_of_people(shop: Shop) -> None:
    shop.ask("POST", f"{ORDERS}/tags/PII")
    sent = dataset("public.orders", facets={"tags": {"tags": [{"key": "gold", "value": "true"}]}})
    shop.send([event("COMPLETE", 30, "load-3", outputs=[sent])])
    assert shop.get(ORDERS)["tags"] == ["PII", "gold"]
    assert shop.ask("DELETE", f"{ORDERS}/tags/gold")["tags"] == ["PII"]
    shop.send([event("COMPLETE", 31, "load-4", outputs=[sent])])
    assert shop.get(ORDERS)["tags"] == ["PII"]


def test_a_tag_is_made_with_what_it_means(shop: Shop) -> None:
    assert shop.ask("PUT", "/tags/PII", body={"description": "Of a person"})["description"] == "Of a person"
    assert states(shop, "/tags") == [{"tags": [{"name": "PII", "description": "Of a person"}]}] * 3


@pytest.mark.parametrize(
    ("path", "node"), [(ORDERS, "dataset:postgres://db:5432:public.orders"), (LOAD, "job:shop:daily.load")]
)
def test_what_is_deleted_is_not_shown_until_an_event_tells_of_it(shop: Shop, path: str, node: str) -> None:
    listed = path.rpartition("/")[0]
    key = listed.rpartition("/")[2]
    before = shop.get(listed)["totalCount"]
    shop.ask("DELETE", path)
    assert states(shop, path, 404)[0]["code"] == 404
    found = shop.get(listed)
    assert found["totalCount"] == len(found[key]) == before - 1
    nodes = [node["id"] for node in shop.get("/lineage", nodeId="job:shop:daily.sum")["graph"]]
    assert node not in nodes
    shop.send([event("COMPLETE", 40, "load-9", outputs=[dataset("public.orders", "id price")])])
    assert shop.get(path)["name"] in path
    assert shop.get(listed)["totalCount"] == before


def test_a_namespace_is_hidden_with_all_in_it(shop: Shop) -> None:
    assert shop.ask("DELETE", "/namespaces/shop")["isHidden"]
    assert shop.get("/namespaces/shop/jobs") == {"jobs": [], "totalCount": 0}
    assert [one["isHidden"] for one in states(shop, "/namespaces/shop")] == [True] * 3
    shop.send([event("START", 50, "load-9")])
    assert not shop.get("/namespaces/shop")["isHidden"]


def test_a_namespace_and_a_source_are_made(shop: Shop) -> None:
    made = shop.ask("PUT", "/namespaces/team-a", body={"ownerName": "ann", "description": "All of ours"})
    assert (made["ownerName"], made["description"], made["isHidden"]) == ("ann", "All of ours", False)
    assert [one["ownerName"] for one in states(shop, "/namespaces/team-a")] == ["ann"] * 3
    shop.ask("PUT", "/sources/lake", body={"type": "s3", "connectionUrl": "s3://lake"})
    assert [(one["type"], one["connectionUrl"]) for one in states(shop, "/sources/lake")] == [("S3", "s3://lake")] * 3


def test_a_change_is_an_event_in_the_log_that_others_can_read(shop: Shop) -> None:
    start = end_position(shop.home.log)
    shop.ask("POST", f"{ORDERS}/tags/PII")
    parts = split_ranges(shop.home.log, start, end_position(shop.home.log), 1 << 20)
    (body,) = [decode_record(line).body for part in parts for _, line in read_lines(part)]
    assert json.loads(body)["dataset"]["namespace"] == "clew"
    shop.take()
    assert "clew" not in [one["name"] for one in shop.get("/namespaces")["namespaces"]]


def test_nothing_can_be_changed_while_another_writes_the_log(shop: Shop) -> None:
    with LogWriter(shop.home.log):
        answer = shop.client.post(f"/api/v1{ORDERS}/tags/PII")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "clew serve --collect" in answer.json()["message"]
    assert shop.get(ORDERS)["tags"] == []


def test_where_notes_are_kept_is_shown_nowhere(shop: Shop) -> None:
    lists = (
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
    before = [asked(shop, path) for path in lists]
    shop.ask("POST", f"{ORDERS}/tags/PII")
    shop.take()
    assert [asked(shop, path) for path in lists] == before
    shop.get("/namespaces/clew/datasets/notes", 404)
    assert shop.get("/lineage", nodeId="dataset:clew:notes") == {"graph": []}


def asked(shop: Shop, path: str) -> Any:
    found = shop.client.get(path).json()
    return {key: value for key, value in found.items() if key != "indexedUpTo"} if isinstance(found, dict) else found


def test_a_namespace_of_that_name_is_like_any_other(shop: Shop) -> None:
    own = {**event("COMPLETE", 20, "own"), "job": {"namespace": "clew", "name": "nightly"}}
    shop.send([{**own, "outputs": [{"namespace": "clew", "name": "books"}]}])
    shop.ask("POST", f"{ORDERS}/tags/PII")
    shop.take()
    assert shop.get("/namespaces/clew")["createdAt"] == "2026-01-01T10:20:00Z"
    assert [one["name"] for one in shop.get("/namespaces/clew/jobs")["jobs"]] == ["nightly"]
    found = shop.get("/namespaces/clew/datasets")
    assert ([one["name"] for one in found["datasets"]], found["totalCount"]) == (["books"], 1)
