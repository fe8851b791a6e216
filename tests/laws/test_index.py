"""However events are cut into batches, in whatever order and how often those come: the index is as the oracle says."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.contradictions import logs
from tests.reference.expected import INDEX, Rows, differences, expected
from tests.reference.query_context import index_rows, kept_in_index
from tests.support.paths import ROOT

from clew.events.decoding import RejectedError
from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.backends.base import Database
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

pytestmark = pytest.mark.slow

GENERATE = runpy.run_path(str(ROOT / "bench" / "generate.py"))
PERMUTATIONS = 4

Lines = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "index.sqlite"


@settings(max_examples=200)
@given(log=logs, order=st.sampled_from(FacetOrder), data=st.data())
def test_any_split_order_and_repetition_of_batches(
    path: Path, log: list[dict[str, Any]], order: FacetOrder, data: st.DataObject
) -> None:
    # Where the same bytes stand twice, the pipeline drops the second before the index sees it.
    unlike = list(dict.fromkeys(json.dumps(event) for event in log))
    lines = numbered([body.encode() for body in unlike])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)), max_size=3)))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    as_they_come = data.draw(st.permutations(batches)) + data.draw(st.permutations(batches))
    wanted = wanted_of(lines, order)
    assert differences(indexed(path, as_they_come, wanted, order), wanted) == {}


@pytest.mark.parametrize("seed", range(PERMUTATIONS))
@pytest.mark.parametrize("origin", ["generated", "corpus"])
@pytest.mark.parametrize("order", FacetOrder)
def test_many_events_in_random_batches(
    order: FacetOrder, origin: str, seed: int, path: Path, request: pytest.FixtureRequest
) -> None:
    bodies = generated() if origin == "generated" else corpus(request.getfixturevalue("shared"))
    chance = Random(seed)
    lines = numbered(bodies)
    cuts = sorted(chance.sample(range(len(lines)), 12))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    batches += chance.sample(batches, 4)
    chance.shuffle(batches)
    wanted = wanted_of(lines, order)
    assert differences(indexed(path, batches, wanted, order), wanted) == {}


def wanted_of(lines: Lines, order: FacetOrder) -> Rows:
    return kept_in_index(expected(lines, INDEX, is_by_time=order is FacetOrder.EVENT_TIME))


def generated() -> list[bytes]:
    bodies: Iterator[bytes] = islice(GENERATE["events"](10_000, seed=11), 400)
    return list(dict.fromkeys(bodies))


def corpus(shared: Path) -> list[bytes]:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    return list(dict.fromkeys(line.strip() for file in files for line in file.read_bytes().splitlines()))


def numbered(bodies: list[bytes]) -> Lines:
    """Lines as the log keeps them, with their positions."""
    lines = [b'{"stream":"openlineage","event":' + body + b"}\n" for body in bodies]
    return [(sum(map(len, lines[:place])), line) for place, line in enumerate(lines)]


def indexed(path: Path, batches: list[Lines], wanted: Rows, order: FacetOrder) -> Rows:
    """The rows of an index that was empty before the batches came."""
    with IndexWriter(path) as sink:
        empty(sink._database)
    with IndexWriter(path, order) as sink:
        for number, batch in enumerate(batches):
            sink.apply(f"test/{number}", observed(batch, order))
        return index_rows(sink._database, wanted)


def empty(database: Database) -> None:
    # Thousands of small transactions, none of which has to survive.
    database.execute("pragma synchronous = off")
    for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        database.execute(f"delete from {table} where {'key' if table == 'meta' else repr('')} != 'format'")


def observed(lines: Lines, order: FacetOrder) -> ChangeSet:
    observer = ChangeExtractor(None, order)
    for seq, line in lines:
        body = bytes(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["event"])
        try:
            event = decode_event("openlineage", body)
        except RejectedError:
            observer.add(None, event_id(body), seq)
        else:
            observer.add(event, event_id(body), seq)
    # As they travel from a worker to the driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(observer.changes()), type=ChangeSet)
