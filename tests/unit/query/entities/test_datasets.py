"""Tests of datasets with many names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.unit.api.marquez.conftest import Event, Shop, dataset, event

from clew.data_dir import IndexLocation
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog

WAREHOUSE = "/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets"


@pytest.fixture
def shop(tmp_path: Path, index_location: IndexLocation) -> Iterator[Shop]:
    """Create an empty data directory."""
    shop = Shop(tmp_path / "home", index_location)
    with shop.client:
        yield shop


def make_chain(prefix: str, size: int) -> Event:
    """Make an event whose outputs are aliases, each of the next one."""
    outputs = []
    for number in range(size):
        identifier = {"namespace": "postgres://db:5432", "name": f"{prefix}{number + 1}", "type": "TABLE"}
        facets = {"symlinks": {"identifiers": [identifier]}}
        lineage = {f"c{number}": [("source", "id")]}
        statistics = {"outputFacets": {"outputStatistics": {"rowCount": number}}}
        outputs.append(dataset(f"{prefix}{number}", f"c{number}", lineage, facets=facets, **statistics))
    return event("COMPLETE", 1, prefix, prefix, outputs=outputs)


def test_a_list_has_the_documents_of_all_names(shop: Shop) -> None:
    shop.send([make_chain("chain", 6)])
    documents = shop.get(WAREHOUSE)["datasets"]
    single = [shop.get(f"{WAREHOUSE}/{quote(document['name'])}") for document in documents]
    assert documents == single
    chain = [document for document in documents if document["name"].startswith("chain")]
    assert len(chain) == 6
    assert len({document["currentVersion"] for document in chain}) == 1
    assert all(document["columnLineage"] for document in chain)


SMALL, LARGE = 250, 2000


def test_a_list_is_linear_in_the_number_of_names(shop: Shop) -> None:
    shop.send([make_chain(f"n{size}-", size) for size in (SMALL, LARGE)])
    with QueryResources(shop.home.index, shop.home.lake) as resources, resources.catalog() as catalog:
        small, large = (min(measure_loading(catalog, size) for _ in range(3)) for size in (SMALL, LARGE))
    # 64 times as long, if each document reads all names.
    assert large < 3 * LARGE / SMALL * small


def measure_loading(catalog: Catalog, size: int) -> float:
    """Measure the time to load all names of a chain."""
    names = [("postgres://db:5432", f"n{size}-{number}") for number in range(size)]
    start = time.perf_counter()
    assert len(catalog.datasets_by_name(names)) == size
    return time.perf_counter() - start


def test_all_names_are_found_in_linear_time(shop: Shop) -> None:
    shop.send([make_chain(f"n{size}-", size) for size in (SMALL, LARGE)])
    with IndexReader(shop.home.index) as index:
        small, large = (min(measure_names(index, size) for _ in range(3)) for size in (SMALL, LARGE))
    assert large < 3 * LARGE / SMALL * small


def measure_names(index: IndexReader, size: int) -> float:
    """Measure the time to find the names of a chain, from its end."""
    start = time.perf_counter()
    assert len(index.all_names("postgres://db:5432", f"n{size}-{size - 1}")) == size + 1
    return time.perf_counter() - start
