"""Tests of references to large facets: they resolve to the original bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew.lake.facet_columns import REF_MARKER, ROW_SEPARATOR, TAGS, explode_rows, resolve_ref

FACETS = ['{"a":1}', '{"b":"é"}', '{"_deleted":true}', '{"rowCount":7,"entries":[]}', '{"nested":{"_deleted":true}}']


@pytest.fixture
def refs(tmp_path: Path) -> list[str]:
    """Return references to facets in a file with two rows per row group."""
    path = tmp_path / "with#mark.parquet"
    pq.write_table(pa.table({"uuid": FACETS, "facet": FACETS}), path, row_group_size=2)
    return [f"{REF_MARKER}{path}{ROW_SEPARATOR}{row}" for row in range(len(FACETS))]


def test_resolve_ref_returns_the_facet(refs: list[str]) -> None:
    assert [resolve_ref(ref).decode() for ref in refs] == FACETS


@pytest.mark.parametrize("facet", FACETS)
def test_resolve_ref_of_an_inline_facet(facet: str) -> None:
    assert resolve_ref(facet) == facet.encode()


def test_explode_rows_reads_large_facets(tmp_path: Path) -> None:
    facet = '{"tags": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]}'
    path = tmp_path / "facets.parquet"
    pq.write_table(pa.table({"facet": [facet]}), path)
    texts = [facet, f"{REF_MARKER}{path}{ROW_SEPARATOR}0", None]
    rows = explode_rows(pa.RecordBatch.from_pydict({"n": [1, 2, 3], "facet": texts}), "facet", TAGS).to_pylist()
    assert [(row["n"], row["key"]) for row in rows] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
