"""Tests of expand_edges: rows that stand for several edges."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from clew.lake.facet_parsers import REF_MARKER, ROW_SEPARATOR, WIDE_EDGE_TEXT, expand_edges


def source(name: str, field: str) -> dict[str, str]:
    return {"namespace": "n", "name": name, "field": field}


def write_facet(folder: Path, fields: dict[str, list[dict[str, str]]]) -> str:
    """Write a columnLineage facet to a file and return its reference."""
    facet = json.dumps({"fields": {name: {"inputFields": sources} for name, sources in fields.items()}})
    pq.write_table(pa.table({"facet": [facet]}), folder / "facets.parquet")
    return f"columnLineage {REF_MARKER}{folder}/facets.parquet{ROW_SEPARATOR}0"


def edge(ordinal: int, column: str, source_name: str, source_column: str, **rest: str | None) -> dict[str, object]:
    return {
        "edge_position": ordinal,
        "column": column,
        "source_namespace": "n",
        "source_name": source_name,
        "source_column": source_column,
        "type": "DIRECT",
        "subtype": None,
        "description": None,
        "masking": None,
        **rest,
    }


def test_expand_edges_replaces_the_first_edge_of_a_source_by_all(tmp_path: Path) -> None:
    text = write_facet(
        tmp_path, {"x": [source("a", "f"), source("b", "g")], "y": [source("b", "h")], "z": [source("a", "i")]}
    )
    before, after = edge(0, "own", "c", "own", run="r1"), edge(5, "last", "c", "own", run="r3")
    # Sources have canonical names, which the facet does not contain.
    first_edges = [edge(0, "x", "node of a", "f", run="r2"), edge(1, "x", "node of b", "g", run="r2")]
    rows = [
        {**before, WIDE_EDGE_TEXT: None},
        *({**first_edge, WIDE_EDGE_TEXT: text} for first_edge in first_edges),
        {**after, WIDE_EDGE_TEXT: None},
    ]
    inferred = pa.RecordBatch.from_pylist(rows)
    batch = pa.RecordBatch.from_pylist(rows, schema=inferred.schema.set(8, pa.field("masking", pa.bool_())))
    assert [row for part in expand_edges(batch) for row in part.to_pylist()] == [
        before,
        edge(0, "x", "node of a", "f", run="r2"),
        edge(3, "z", "node of a", "i", run="r2"),
        edge(1, "x", "node of b", "g", run="r2"),
        edge(2, "y", "node of b", "h", run="r2"),
        after,
    ]


def test_expand_edges_keeps_rows_of_other_tables() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2]})
    assert list(expand_edges(rows)) == [rows]
