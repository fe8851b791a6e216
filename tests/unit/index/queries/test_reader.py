"""Tests of index queries on both databases."""

from __future__ import annotations

import json
from typing import Any

from clew.data_dir import IndexLocation
from clew.events.streams import Stream, decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter


def dataset_event(minute: int, name: str, **facets: Any) -> dict[str, Any]:
    return {"eventTime": f"2026-01-01T10:0{minute}:00Z", "dataset": {"namespace": "n", "name": name, "facets": facets}}


def renamed_from(name: str) -> dict[str, Any]:
    return {"lifecycleStateChange": "RENAME", "previousIdentifier": {"namespace": "n", "name": name}}


def lineage_from(column: str) -> dict[str, Any]:
    return {"fields": {column: {"inputFields": [{"namespace": "n", "name": "raw", "field": f"raw_{column}"}]}}}


def test_edges_include_those_of_aliases_and_of_names_before_renames(index_location: IndexLocation) -> None:
    """`first` was renamed to `second`, which has the alias `link`, and then to `third`."""
    events = [
        dataset_event(1, "first", columnLineage=lineage_from("a")),
        dataset_event(2, "second", columnLineage=lineage_from("b"), lifecycleStateChange=renamed_from("first")),
        dataset_event(3, "second", symlinks={"identifiers": [{"namespace": "n", "name": "link", "type": "TABLE"}]}),
        dataset_event(4, "link", columnLineage=lineage_from("c")),
        dataset_event(5, "third", lifecycleStateChange=renamed_from("second")),
        dataset_event(6, "other", columnLineage=lineage_from("d")),
    ]
    extractor = ChangeExtractor()
    for seq, event in enumerate(events):
        extractor.add(decode_event(Stream.OPENLINEAGE, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(index_location) as writer:
        writer.apply("test/0", extractor.changes())
    with IndexReader(index_location) as reader:
        assert sorted(reader.columns("n", "third")) == ["a", "b", "c"]
        assert sorted(reader.columns("n", "first")) == ["a"]
