"""Tests of splitting record batches at rows with large facets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clew.lake.facet_parsers import REF_MARKER
from clew.pipeline.derive.facets import _split_at_large_facets

LARGE = f"{REF_MARKER}/somewhere#0"


@pytest.mark.parametrize(
    ("facets", "sizes"),
    [
        ([], []),
        (["{}", None, "{}"], [3]),
        ([LARGE], [1]),
        (["{}", LARGE, "{}", "{}", LARGE, LARGE], [2, 3, 1]),
        ([f"columnLineage {LARGE}", None], [1, 1]),
    ],
)
def test_splits_after_each_row_with_a_large_facet(facets: list[str | None], sizes: list[int]) -> None:
    small_facets = ["{}"] * len(facets)
    columns = {
        "n": list(range(len(facets))),
        "a": pa.array(facets, pa.string()),
        "b": pa.array(small_facets, pa.string()),
    }
    batches = list(_split_at_large_facets(pa.RecordBatch.from_pydict(columns), ["b", "a"]))
    assert [batch.num_rows for batch in batches] == sizes
    assert [number for batch in batches for number in batch.column("n").to_pylist()] == columns["n"]
