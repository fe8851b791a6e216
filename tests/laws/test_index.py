"""Properties of the index: any split, order and repetition of batches gives the rows of the reference."""

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
from tests.reference.expected import INDEX, Rows, differences, expected_tables
from tests.reference.query_context import index_rows, restrict_to_index
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
def test_split_order_and_repetition_of_batches_do_not_matter(
    path: Path, log: list[dict[str, Any]], order: FacetOrder, data: st.DataObject
) -> None:
    # The pipeline drops duplicates before the index sees them.
    bodies = list(dict.fromkeys(json.dumps(event) for event in log))
    lines = encode_lines([body.encode() for body in bodies])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(lines)), max_size=3)))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    deliveries = data.draw(st.permutations(batches)) + data.draw(st.permutations(batches))
    expected = expected_index_rows(lines, order)
    assert differences(index_batches(path, deliveries, expected, order), expected) == {}


@pytest.mark.parametrize("seed", range(PERMUTATIONS))
@pytest.mark.parametrize("origin", ["generated", "corpus"])
@pytest.mark.parametrize("order", FacetOrder)
def test_random_batches_of_many_events(
    order: FacetOrder, origin: str, seed: int, path: Path, request: pytest.FixtureRequest
) -> None:
    bodies = generate_events() if origin == "generated" else load_corpus(request.getfixturevalue("shared"))
    random = Random(seed)
    lines = encode_lines(bodies)
    cuts = sorted(random.sample(range(len(lines)), 12))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    batches += random.sample(batches, 4)
    random.shuffle(batches)
    expected = expected_index_rows(lines, order)
    assert differences(index_batches(path, batches, expected, order), expected) == {}


def expected_index_rows(lines: Lines, order: FacetOrder) -> Rows:
    return restrict_to_index(expected_tables(lines, INDEX, is_by_time=order is FacetOrder.EVENT_TIME))


def generate_events() -> list[bytes]:
    bodies: Iterator[bytes] = islice(GENERATE["generate_events"](10_000, seed=11), 400)
    return list(dict.fromkeys(bodies))


def load_corpus(shared: Path) -> list[bytes]:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    return list(dict.fromkeys(line.strip() for file in files for line in file.read_bytes().splitlines()))


def encode_lines(bodies: list[bytes]) -> Lines:
    """Return the log lines of bodies with their positions."""
    lines = [b'{"stream":"openlineage","event":' + body + b"}\n" for body in bodies]
    return [(sum(map(len, lines[:number])), line) for number, line in enumerate(lines)]


def index_batches(path: Path, batches: list[Lines], expected: Rows, order: FacetOrder) -> Rows:
    """Return the rows of an empty index after the batches."""
    with IndexWriter(path) as index_writer:
        truncate(index_writer._database)
    with IndexWriter(path, order) as index_writer:
        for number, batch in enumerate(batches):
            index_writer.apply(f"test/{number}", extract_changes(batch, order))
        return index_rows(index_writer._database, expected)


def truncate(database: Database) -> None:
    # Thousands of small transactions; durability is not needed.
    database.execute("pragma synchronous = off")
    for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        database.execute(f"delete from {table} where {'key' if table == 'meta' else repr('')} != 'format'")


def extract_changes(lines: Lines, order: FacetOrder) -> ChangeSet:
    extractor = ChangeExtractor(None, order)
    for seq, line in lines:
        body = bytes(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["event"])
        try:
            event = decode_event("openlineage", body)
        except RejectedError:
            extractor.add(None, event_id(body), seq)
        else:
            extractor.add(event, event_id(body), seq)
    # Serialize as between worker and driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(extractor.changes()), type=ChangeSet)
