"""Searching: by every kind of text, ranked, paged, up to date with the index."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources, sidecar_path
from clew.query.search import Hits, search_entities


def found(holdings: QueryResources, text: str, **how: Any) -> Hits:
    with holdings.reader() as index:
        return search_entities(holdings.search_index, index, text, **how)


def names(hits: Hits) -> list[str]:
    return [hit.name for hit in hits.hits]


@pytest.fixture
def shop(world: Any) -> Any:
    described = {
        "orders": {
            "schema": {"fields": [{"name": "customer_id", "type": "int", "description": "who bought"}]},
            "documentation": {"description": "All purchases since the beginning"},
            "tags": {"tags": [{"key": "pii", "value": "high"}]},
            "storage": {"_producer": "hidden", "storageLayer": "iceberg"},
        }
    }
    sql = {"sql": {"query": "select sum(price) from orders where channel = 'web'"}}
    world.run("loadOrders", "raw", "orders", dataset_facets=described)
    world.run("total", "orders", "totals_of_orders", facets=sql)
    world.tell()
    return world


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", ["orders", "loadOrders", "totals_of_orders", "total"]),
        ("custom", ["orders"]),
        ("purchases", ["orders"]),
        ("bought", ["orders"]),
        ("PII", ["orders"]),
        ("iceberg", ["orders"]),
        ("channel web", ["total"]),
        ("totals of", ["totals_of_orders"]),
        ("hidden", []),
        ("nothing-like-it", []),
        ('"*( )^: NEAR', []),
        ("", []),
    ],
)
def test_every_kind_of_text_is_found(shop: Any, holdings: QueryResources, text: str, expected: list[str]) -> None:
    assert shop.events
    hits = found(holdings, text)
    assert sorted(names(hits)) == sorted(expected)
    assert names(hits)[:1] == expected[:1]
    assert hits.total == len(expected)


def test_pages_and_kinds(shop: Any, holdings: QueryResources) -> None:
    assert shop.events
    everything = names(found(holdings, "orders"))
    paged = [name for offset in range(4) for name in names(found(holdings, "orders", limit=1, offset=offset))]
    assert paged == everything
    assert names(found(holdings, "orders", kind="job")) == ["loadOrders", "total"]
    assert names(found(holdings, "orders", namespace="db")) == ["orders", "totals_of_orders"]


def test_what_is_not_there_is_told_what_is_like_it(shop: Any, holdings: QueryResources) -> None:
    assert shop.events
    assert found(holdings, "purchasse").did_you_mean == ("purchases",)


def test_a_run_is_found_by_its_id(shop: Any, holdings: QueryResources) -> None:
    run = shop.events[1]["run"]["runId"]
    assert [(hit.kind, hit.name) for hit in found(holdings, run).hits] == [("run", "total")]


def test_what_comes_later_is_found_and_what_is_said_no_more_is_not(shop: Any, holdings: QueryResources) -> None:
    assert names(found(holdings, "purchases")) == ["orders"]
    shop.dataset("orders", documentation={"description": "Sales"})
    shop.run("archive", "orders", "cellar")
    shop.tell()
    assert names(found(holdings, "purchases")) == []
    assert names(found(holdings, "sales")) == ["orders"]
    assert names(found(holdings, "cellar")) == ["cellar"]


def test_a_file_that_is_none_is_made_anew(shop: Any, holdings: QueryResources) -> None:
    sidecar_path(shop.index, "search").write_bytes(b"no database" * 100)
    assert names(found(holdings, "purchases")) == ["orders"]


def test_who_is_brief_takes_in_what_is_called_so_and_says_that_there_is_more(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.query.search_index._BATCH_SIZE", 1)
    with QueryResources(shop.index, is_one_shot=True) as brief:
        first = found(brief, "totals")
        assert (names(first), first.is_complete) == (["totals_of_orders"], False)
        assert names(found(brief, "channel")) == []
        brief.search_index.refresh()
        whole = found(brief, "channel")
        assert (names(whole), whole.is_complete) == (["total"], True)
    with QueryResources(shop.index, is_one_shot=True) as brief:
        assert found(brief, "channel").is_complete
    shop.run("another", "orders", "more_totals")
    shop.tell()
    with QueryResources(shop.index, is_one_shot=True) as brief:
        assert "more_totals" in names(found(brief, "more"))
