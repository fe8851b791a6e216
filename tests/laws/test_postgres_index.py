"""Properties of the index in PostgreSQL: any order and repetition of batches gives the same rows as SQLite."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.contradictions import logs
from tests.reference.facet_blobs import TABLES, VIEWS, index_facets
from tests.support.paths import PIPELINE_CASES

from clew.collector.file_import import guess_stream
from clew.data_dir import IndexLocation
from clew.events.decoding import RejectedError
from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.streams import decode_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

pytestmark = pytest.mark.slow

CASES = sorted(PIPELINE_CASES.iterdir())
# `identity` and `indexed_at` differ between indexes.
META_QUERY = "select key, value from meta where key not in ('identity', 'indexed_at')"

NAMES = {*TABLES, *VIEWS} - {"meta", "facets", "zstd_dictionaries"}

Batch = list[tuple[int, bytes]]
Rows = dict[str, list[str]]


@pytest.fixture
def both_locations(postgres_schemas: Any, tmp_path: Path) -> tuple[IndexLocation, IndexLocation]:
    return tmp_path / "index.sqlite", postgres_schemas.empty("same")


def index_batches(location: IndexLocation, batches: list[Batch], order: FacetOrder = FacetOrder.RECEIVED) -> Rows:
    """Return all rows of all tables and views after the batches."""
    with IndexWriter(location, order) as index_writer:
        for number, batch in enumerate(batches):
            index_writer.apply(f"test/{number}", extract_changes(batch, order))
        return read_all(index_writer)


def extract_changes(batch: Batch, order: FacetOrder) -> ChangeSet:
    extractor = ChangeExtractor(None, order)
    for seq, body in batch:
        try:
            event = decode_event(guess_stream(body), body)
        except RejectedError:
            extractor.add(None, event_id(body), seq)
        else:
            extractor.add(event, event_id(body), seq)
    # Serialize as between worker and driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(extractor.changes()), type=ChangeSet)


def read_all(index_writer: IndexWriter) -> Rows:
    database = index_writer._database
    rows_by_name = {name: database.execute(f"select * from {name}").fetchall() for name in NAMES}
    rows_by_name["facets"] = [tuple(row.values()) for row in index_facets(database)]
    rows_by_name["meta"] = database.execute(META_QUERY).fetchall()
    return {name: sorted(repr(tuple(map(normalize_value, row))) for row in rows) for name, rows in rows_by_name.items()}


def normalize_value(value: Any) -> Any:
    """Convert booleans to integers, as SQLite stores them."""
    return int(value) if isinstance(value, bool) else value


def number_events(bodies: list[bytes]) -> Batch:
    return list(enumerate(dict.fromkeys(bodies)))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_cases_equal_sqlite(case: Path, both_locations: tuple[IndexLocation, IndexLocation]) -> None:
    lines = number_events((case / "events.ndjson").read_bytes().splitlines())
    reversed_batches = [[line] for line in reversed(lines)]
    file, database = (index_batches(location, [*reversed_batches, lines]) for location in both_locations)
    assert database == file
    assert any(file.values())


@settings(max_examples=15)
@given(log=logs, order=st.sampled_from(FacetOrder), data=st.data())
def test_contradictory_events_in_any_order_equal_sqlite(
    log: list[dict[str, Any]],
    order: FacetOrder,
    data: st.DataObject,
    postgres_schemas: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = number_events([json.dumps(event).encode() for event in log])
    cut = data.draw(st.integers(0, len(lines)))
    batches = data.draw(st.permutations([lines[:cut], lines[cut:], lines]))
    locations = tmp_path_factory.mktemp("index") / "index.sqlite", postgres_schemas.empty("same")
    file, database = (index_batches(location, batches, order) for location in locations)
    assert database == file


@pytest.mark.parametrize("order", FacetOrder)
def test_corpus_in_random_batches_equals_sqlite(
    order: FacetOrder, both_locations: tuple[IndexLocation, IndexLocation], shared: Path
) -> None:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    lines = number_events([line.strip() for file in files for line in file.read_bytes().splitlines()])
    random = Random(7)
    cuts = sorted(random.sample(range(len(lines)), 4))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    batches += random.sample(batches, 2)
    random.shuffle(batches)
    file, database = (index_batches(location, batches, order) for location in both_locations)
    assert database == file


def test_parts_of_one_batch_with_common_entities_equal_sqlite(
    both_locations: tuple[IndexLocation, IndexLocation],
) -> None:
    """Reports of several workers are merged at once, spilled ones afterwards."""
    lines = number_events((CASES[0].parent / "job_versions" / "events.ndjson").read_bytes().splitlines())
    contents = []
    for location in both_locations:
        parts = [extract_changes([line], FacetOrder.RECEIVED) for line in lines]
        events = [event for part in parts for event in part.events]
        spilled = [msgspec.structs.replace(part, events=[]) for part in parts[6:]]
        with IndexWriter(location) as index_writer:
            index_writer.apply("test/0", msgspec.structs.replace(ChangeSet.concat(parts[:6]), events=events), spilled)
            contents.append(read_all(index_writer))
    assert contents[0] == contents[1]
