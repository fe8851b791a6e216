"""Rows that name bodies of megabytes are opened one at a time."""

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
def test_rows_are_cut_behind_each_that_names_a_body(facets: list[str | None], sizes: list[int]) -> None:
    others = ["{}"] * len(facets)
    columns = {"n": list(range(len(facets))), "a": pa.array(facets, pa.string()), "b": pa.array(others, pa.string())}
    parts = list(_split_at_large_facets(pa.RecordBatch.from_pydict(columns), ["b", "a"]))
    assert [part.num_rows for part in parts] == sizes
    assert [number for part in parts for number in part.column("n").to_pylist()] == columns["n"]
