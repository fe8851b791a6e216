"""Tests of facet order: the last facet by receipt or by event time counts, independent of batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import msgspec
import pytest
from tests.support.large_events import LARGE_EVENTS

from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.lineage import latest_assertions
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

# The event received second is the latest by its own time; the last two share a time.
MINUTES = (1, 9, 3, 3)
WINNERS = {FacetOrder.RECEIVED: 3, FacetOrder.EVENT_TIME: 1}


def event(number: int, minute: int) -> bytes:
    source = {"namespace": "n", "name": "in", "field": f"c{number}"}
    lineage = {"fields": {"out": {"inputFields": [source]}}}
    output = {"namespace": "n", "name": "out", "facets": {"columnLineage": lineage, "note": {"n": number}}}
    run = {"runId": "r", "facets": {"note": {"n": number}}}
    event_time = f"2026-01-01T10:0{minute}:00Z"
    return json.dumps(
        {"eventTime": event_time, "run": run, "job": {"namespace": "n", "name": "j"}, "outputs": [output]}
    ).encode()


EVENTS = [event(number, minute) for number, minute in enumerate(MINUTES)]


def batch_splits() -> Iterator[list[list[int]]]:
    yield [[0, 1, 2, 3]]
    yield [[0, 1], [2, 3]]
    yield [[2, 3], [0, 1]]
    yield from ([[number] for number in order] for order in permutations(range(4)))


@pytest.mark.parametrize("order", FacetOrder)
def test_facet_order_decides_independent_of_batches(order: FacetOrder, tmp_path: Path) -> None:
    for case, parts in enumerate(batch_splits()):
        path = tmp_path / str(case)
        with IndexWriter(path, order) as index_writer:
            for batch, numbers in enumerate(parts):
                extractor = ChangeExtractor(None, order)
                for number in numbers:
                    extractor.add(decode_openlineage(EVENTS[number]), f"{number:032x}", number)
                index_writer.apply(f"app/{batch}", extractor.changes())
        winner = WINNERS[order]
        with IndexReader(path) as index:
            assert index.facets("run", "r") == {"note": json.dumps({"n": winner}).encode()}, parts
            assert index.dataset_facet("n", "out", None, "note") == json.dumps({"n": winner}).encode(), parts
            (assertion,) = latest_assertions(index, [("n", "out")])
            edges = index.asserted_edges([assertion.edge_set_id])
            assert [edge.source_column for edge in edges] == [f"c{winner}"], parts


def test_sort_key_breaks_ties_by_receipt() -> None:
    assert FacetOrder.EVENT_TIME.sort_key(3, 7) > FacetOrder.EVENT_TIME.sort_key(2, 7)
    assert FacetOrder.EVENT_TIME.sort_key(1, 8) > FacetOrder.EVENT_TIME.sort_key(2, 7)
    assert FacetOrder.RECEIVED.sort_key(3, 7) > FacetOrder.RECEIVED.sort_key(2, 8)


@pytest.mark.parametrize("kind", LARGE_EVENTS)
def test_rows_are_linear_in_the_size_of_an_event(kind: str) -> None:
    counts = []
    for size in (50, 200):
        extractor = ChangeExtractor()
        for seq, body in enumerate(LARGE_EVENTS[kind](size)):
            extractor.add(decode_openlineage(body), event_id(body), seq)
        counts.append(sum(len(rows) for rows in msgspec.structs.astuple(extractor.changes())))
    assert counts[0] >= 50
    assert counts[1] <= 4 * counts[0]
