"""Rows that stand for many edges, and all edges in their place."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from clew.lake.facet_parsers import REF_MARKER, ROW_SEPARATOR, WIDE_EDGE_TEXT, expand_edges


def source(name: str, field: str) -> dict[str, str]:
    return {"namespace": "n", "name": name, "field": field}


def kept(folder: Path, fields: dict[str, list[dict[str, str]]]) -> str:
    """The name of the text of a columnLineage facet that is kept in a file."""
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


def test_all_edges_from_a_source_stand_where_its_first_one_stood(tmp_path: Path) -> None:
    text = kept(tmp_path, {"x": [source("a", "f"), source("b", "g")], "y": [source("b", "h")], "z": [source("a", "i")]})
    before, after = edge(0, "own", "c", "own", run="r1"), edge(5, "last", "c", "own", run="r3")
    # Sources by the names of their nodes: by those the edges cannot be found.
    few = [edge(0, "x", "node of a", "f", run="r2"), edge(1, "x", "node of b", "g", run="r2")]
    rows = [
        {**before, WIDE_EDGE_TEXT: None},
        *({**one, WIDE_EDGE_TEXT: text} for one in few),
        {**after, WIDE_EDGE_TEXT: None},
    ]
    masked = pa.RecordBatch.from_pylist(rows)
    batch = pa.RecordBatch.from_pylist(rows, schema=masked.schema.set(8, pa.field("masking", pa.bool_())))
    assert [row for part in expand_edges(batch) for row in part.to_pylist()] == [
        before,
        edge(0, "x", "node of a", "f", run="r2"),
        edge(3, "z", "node of a", "i", run="r2"),
        edge(1, "x", "node of b", "g", run="r2"),
        edge(2, "y", "node of b", "h", run="r2"),
        after,
    ]


def test_rows_of_other_tables_stay() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2]})
    assert list(expand_edges(rows)) == [rows]
