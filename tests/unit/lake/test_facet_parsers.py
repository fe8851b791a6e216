"""Tests of references to large facets: they resolve to the original bytes and are inspected without parsing."""

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
def refs(tmp_path: Path) -> list[str]:
    """Return references to facets in a file with two rows per row group."""
    path = tmp_path / "with#mark.parquet"
    pq.write_table(pa.table({"uuid": FACETS, "facet": FACETS}), path, row_group_size=2)
    return [f"{REF_MARKER}{path}{ROW_SEPARATOR}{row}" for row in range(len(FACETS))]


def test_resolve_ref_returns_the_facet(refs: list[str]) -> None:
    assert [resolve_ref(ref).decode() for ref in refs] == FACETS
    assert all(map(is_ref, refs))


def test_resolve_ref_keeps_a_prefix(refs: list[str]) -> None:
    assert resolve_ref(f"columnLineage {refs[1]}") == b"columnLineage " + FACETS[1].encode()


@pytest.mark.parametrize("facet", FACETS)
def test_resolve_ref_of_an_inline_facet(facet: str) -> None:
    assert (resolve_ref(facet), is_ref(facet)) == (facet.encode(), False)


def test_inspect_facet(refs: list[str]) -> None:
    digests = [md5(f"lineage {facet}".encode(), usedforsecurity=False).hexdigest() for facet in FACETS]
    flags = [(False, False, False), (False, False, False), (True, False, False), (False, True, True), (False,) * 3]
    assert [inspect_facet("lineage", ref) for ref in refs] == [
        LargeFacetInfo(digest, *flag_values) for digest, flag_values in zip(digests, flags, strict=True)
    ]


def test_explode_rows_of_a_large_facet_gives_the_first_edge_per_source(tmp_path: Path) -> None:
    sources = [{"namespace": "n", "name": name, "field": "f"} for name in ("a", "b")]
    fields = {"x": sources[:1], "y": sources, "z": sources[1:]}
    facet = pa.array([str({"fields": {name: {"inputFields": inputs} for name, inputs in fields.items()}})])
    path = tmp_path / "facets.parquet"
    pq.write_table(pa.table({"facet": [facet[0].as_py().replace("'", '"')]}), path)
    text = f"columnLineage {REF_MARKER}{path}{ROW_SEPARATOR}0"
    rows = [pa.RecordBatch.from_pydict({"text": [value]}) for value in (text, resolve_ref(text).decode())]
    first_edges, all_edges = (explode_rows(batch, "text", EDGES).to_pylist() for batch in rows)
    assert [(edge["edge_position"], edge["source_name"]) for edge in all_edges] == [
        (0, "a"),
        (1, "a"),
        (2, "b"),
        (3, "b"),
    ]
    assert sorted(edge["edge_position"] for edge in first_edges) == [0, 2]
    assert all(edge in all_edges for edge in first_edges)
