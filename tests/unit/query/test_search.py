"""Tests of search: indexed text, ranking, paging and refresh."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random
from typing import Any

import pytest

from clew.query.context import QueryResources, sidecar_path
from clew.query.search import Hits, search_entities


def search(resources: QueryResources, text: str, **options: Any) -> Hits:
    with resources.reader() as index:
        return search_entities(resources.search_index, index, text, **options)


def hit_names(hits: Hits) -> list[str]:
    return [hit.name for hit in hits.hits]


@pytest.fixture
def shop(scenario: Any) -> Any:
    dataset_facets = {
        "orders": {
            "schema": {"fields": [{"name": "customer_id", "type": "int", "description": "who bought"}]},
            "documentation": {"description": "All purchases since the beginning"},
            "tags": {"tags": [{"key": "pii", "value": "high"}]},
            "storage": {"_producer": "hidden", "storageLayer": "iceberg"},
        }
    }
    sql = {"sql": {"query": "select sum(price) from orders where channel = 'web'"}}
    scenario.run("loadOrders", "raw", "orders", dataset_facets=dataset_facets)
    scenario.run("total", "orders", "totals_of_orders", facets=sql)
    scenario.index_events()
    return scenario


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
def test_searches_names_descriptions_columns_tags_and_sql(
    shop: Any, resources: QueryResources, text: str, expected: list[str]
) -> None:
    assert shop.events
    hits = search(resources, text)
    assert sorted(hit_names(hits)) == sorted(expected)
    assert hit_names(hits)[:1] == expected[:1]
    assert hits.total == len(expected)


def test_pages_and_filters_by_kind_and_namespace(shop: Any, resources: QueryResources) -> None:
    assert shop.events
    all_names = hit_names(search(resources, "orders"))
    paged_names = [
        name for offset in range(4) for name in hit_names(search(resources, "orders", limit=1, offset=offset))
    ]
    assert paged_names == all_names
    assert hit_names(search(resources, "orders", kind="job")) == ["loadOrders", "total"]
    assert hit_names(search(resources, "orders", namespace="db")) == ["orders", "totals_of_orders"]


def test_suggests_a_similar_word(shop: Any, resources: QueryResources) -> None:
    assert shop.events
    assert search(resources, "purchasse").did_you_mean == ("purchases",)


def test_finds_a_run_by_its_id(shop: Any, resources: QueryResources) -> None:
    run = shop.events[1]["run"]["runId"]
    assert [(hit.kind, hit.name) for hit in search(resources, run).hits] == [("run", "total")]


def test_refreshes_after_new_events(shop: Any, resources: QueryResources) -> None:
    assert hit_names(search(resources, "purchases")) == ["orders"]
    shop.dataset("orders", documentation={"description": "Sales"})
    shop.run("archive", "orders", "cellar")
    shop.index_events()
    assert hit_names(search(resources, "purchases")) == []
    assert hit_names(search(resources, "sales")) == ["orders"]
    assert hit_names(search(resources, "cellar")) == ["cellar"]


def test_only_the_owner_can_read_the_search_index(shop: Any, resources: QueryResources) -> None:
    search(resources, "purchases")
    path = sidecar_path(shop.index, "search")
    files = sorted(path.parent.glob(f"{path.name}*"))
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_a_deleted_search_index_is_created_again(shop: Any, resources: QueryResources) -> None:
    expected = hit_names(search(resources, "orders"))
    for suffix in ("", "-wal", "-shm"):
        path = sidecar_path(shop.index, "search")
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert hit_names(search(resources, "orders")) == expected


def test_recreates_a_corrupt_search_index(shop: Any, resources: QueryResources) -> None:
    sidecar_path(shop.index, "search").write_bytes(b"no database" * 100)
    assert hit_names(search(resources, "purchases")) == ["orders"]


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_search_index_is_created_again(shop: Any, seed: int) -> None:
    with QueryResources(shop.index) as resources:
        resources.search_index.refresh()
        path, rng = sidecar_path(shop.index, "search"), Random(seed)
        with closing(sqlite3.connect(path)) as database:
            database.execute("pragma wal_checkpoint(truncate)")
        body = bytearray(path.read_bytes())
        start = rng.randrange(0, len(body), 4096)
        # The header is intact, so that the file is opened.
        body[max(start, 100) : start + 8192] = bytes(len(body[max(start, 100) : start + 8192]))
        path.write_bytes(body)
    with QueryResources(shop.index) as resources:
        assert set(hit_names(search(resources, "purchases"))) <= {"orders"}
        assert search(resources, "nothing of the kind").total == 0


def test_one_shot_search_indexes_matching_names_and_reports_incompleteness(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.query.search_index._BATCH_SIZE", 1)
    with QueryResources(shop.index, is_one_shot=True) as resources:
        first = search(resources, "totals")
        assert (hit_names(first), first.is_complete) == (["totals_of_orders"], False)
        assert hit_names(search(resources, "channel")) == []
        resources.search_index.refresh()
        second = search(resources, "channel")
        assert (hit_names(second), second.is_complete) == (["total"], True)
    with QueryResources(shop.index, is_one_shot=True) as resources:
        assert search(resources, "channel").is_complete
    shop.run("another", "orders", "more_totals")
    shop.index_events()
    with QueryResources(shop.index, is_one_shot=True) as resources:
        assert "more_totals" in hit_names(search(resources, "more"))


@pytest.mark.parametrize("text", ["no_orphans", "failed", "customer failed"])
def test_dataset_is_found_by_its_tests(text: str, scenario: Any, resources: QueryResources) -> None:
    test = {"assertion": "relationships", "name": "no_orphans", "column": "customer", "success": False}
    for table, success in (("orders", False), ("customers", True)):
        scenario.run(f"check_{table}", table)
        facet = {"dataQualityAssertions": {"assertions": [{**test, "success": success}]}}
        scenario.events[-1]["inputs"][0]["inputFacets"] = facet
    scenario.index_events()
    names = hit_names(search(resources, text, kind="dataset"))
    assert "orders" in names
    assert ("customers" in names) == ("failed" not in text)
