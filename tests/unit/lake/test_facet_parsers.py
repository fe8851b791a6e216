"""Large facets by the name of their place: they come back byte for byte, and are looked at without being opened."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew.lake.facet_parsers import (
    EDGES,
    REF_MARKER,
    ROW_SEPARATOR,
    LargeFacetInfo,
    explode_rows,
    inspect_facet,
    is_ref,
    resolve_ref,
)

FACETS = ['{"a":1}', '{"b":"é"}', '{"_deleted":true}', '{"rowCount":7,"entries":[]}', '{"nested":{"_deleted":true}}']


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    """The names of bodies in a file with two of them in a row group."""
    path = tmp_path / "with#mark.parquet"
    pq.write_table(pa.table({"uuid": FACETS, "facet": FACETS}), path, row_group_size=2)
    return [f"{REF_MARKER}{path}{ROW_SEPARATOR}{row}" for row in range(len(FACETS))]


def test_a_body_is_found_at_its_place(places: list[str]) -> None:
    assert [resolve_ref(place).decode() for place in places] == FACETS
    assert all(map(is_ref, places))


def test_a_text_before_the_place_stays(places: list[str]) -> None:
    assert resolve_ref(f"columnLineage {places[1]}") == b"columnLineage " + FACETS[1].encode()


@pytest.mark.parametrize("facet", FACETS)
def test_a_facet_that_is_there_is_its_own_text(facet: str) -> None:
    assert (resolve_ref(facet), is_ref(facet)) == (facet.encode(), False)


def test_a_look_tells_what_the_text_says(places: list[str]) -> None:
    texts = [md5(f"lineage {facet}".encode(), usedforsecurity=False).hexdigest() for facet in FACETS]
    says = [(False, False, False), (False, False, False), (True, False, False), (False, True, True), (False,) * 3]
    assert [inspect_facet("lineage", place) for place in places] == [
        LargeFacetInfo(text, *said) for text, said in zip(texts, says, strict=True)
    ]


def test_of_a_large_statement_the_first_edge_from_each_source_is_listed(tmp_path: Path) -> None:
    sources = [{"namespace": "n", "name": name, "field": "f"} for name in ("a", "b")]
    fields = {"x": sources[:1], "y": sources, "z": sources[1:]}
    facet = pa.array([str({"fields": {name: {"inputFields": found} for name, found in fields.items()}})])
    path = tmp_path / "facets.parquet"
    pq.write_table(pa.table({"facet": [facet[0].as_py().replace("'", '"')]}), path)
    text = f"columnLineage {REF_MARKER}{path}{ROW_SEPARATOR}0"
    rows = [pa.RecordBatch.from_pydict({"text": [one]}) for one in (text, resolve_ref(text).decode())]
    few, all_edges = (explode_rows(batch, "text", EDGES).to_pylist() for batch in rows)
    assert [(edge["edge_position"], edge["source_name"]) for edge in all_edges] == [
        (0, "a"),
        (1, "a"),
        (2, "b"),
        (3, "b"),
    ]
    assert sorted(edge["edge_position"] for edge in few) == [0, 2]
    assert all(edge in all_edges for edge in few)
