"""Whatever comes, in whatever order and how often: PostgreSQL then holds, row by row, what a file of SQLite holds."""

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
# An identity is of one index, and `indexed_at` of one moment.
OWN = "select key, value from meta where key not in ('identity', 'indexed_at')"

NAMES = {*TABLES, *VIEWS} - {"meta", "facets", "zstd_dictionaries"}

Batch = list[tuple[int, bytes]]
Rows = dict[str, list[str]]


@pytest.fixture
def both(postgres_places: Any, tmp_path: Path) -> tuple[IndexLocation, IndexLocation]:
    return tmp_path / "index.sqlite", postgres_places.empty("same")


def taken_in(place: IndexLocation, batches: list[Batch], order: FacetOrder = FacetOrder.RECEIVED) -> Rows:
    """All rows of all tables and views after the batches."""
    with IndexWriter(place, order) as sink:
        for number, batch in enumerate(batches):
            sink.apply(f"test/{number}", observed(batch, order))
        return contents(sink)


def observed(batch: Batch, order: FacetOrder) -> ChangeSet:
    observer = ChangeExtractor(None, order)
    for seq, body in batch:
        try:
            event = decode_event(guess_stream(body), body)
        except RejectedError:
            observer.add(None, event_id(body), seq)
        else:
            observer.add(event, event_id(body), seq)
    # As they travel from a worker to the driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(observer.changes()), type=ChangeSet)


def contents(sink: IndexWriter) -> Rows:
    database = sink._database
    found = {name: database.execute(f"select * from {name}").fetchall() for name in NAMES}
    found["facets"] = [tuple(row.values()) for row in index_facets(database)]
    found["meta"] = database.execute(OWN).fetchall()
    return {name: sorted(repr(tuple(map(plain, row))) for row in rows) for name, rows in found.items()}


def plain(value: Any) -> Any:
    """PostgreSQL tells truth from numbers."""
    return int(value) if isinstance(value, bool) else value


def numbered(bodies: list[bytes]) -> Batch:
    return list(enumerate(dict.fromkeys(bodies)))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden_cases(case: Path, both: tuple[IndexLocation, IndexLocation]) -> None:
    lines = numbered((case / "events.ndjson").read_bytes().splitlines())
    backwards = [[line] for line in reversed(lines)]
    file, database = (taken_in(place, [*backwards, lines]) for place in both)
    assert database == file
    assert any(file.values())


@settings(max_examples=15)
@given(log=logs, order=st.sampled_from(FacetOrder), data=st.data())
def test_contradictions_in_any_order(
    log: list[dict[str, Any]],
    order: FacetOrder,
    data: st.DataObject,
    postgres_places: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = numbered([json.dumps(event).encode() for event in log])
    cut = data.draw(st.integers(0, len(lines)))
    batches = data.draw(st.permutations([lines[:cut], lines[cut:], lines]))
    places = tmp_path_factory.mktemp("index") / "index.sqlite", postgres_places.empty("same")
    file, database = (taken_in(place, batches, order) for place in places)
    assert database == file


@pytest.mark.parametrize("order", FacetOrder)
def test_public_events_in_random_batches(
    order: FacetOrder, both: tuple[IndexLocation, IndexLocation], shared: Path
) -> None:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    lines = numbered([line.strip() for file in files for line in file.read_bytes().splitlines()])
    chance = Random(7)
    cuts = sorted(chance.sample(range(len(lines)), 4))
    batches = [lines[low:high] for low, high in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    batches += chance.sample(batches, 2)
    chance.shuffle(batches)
    file, database = (taken_in(place, batches, order) for place in both)
    assert database == file


def test_parts_of_one_batch_may_speak_of_the_same(both: tuple[IndexLocation, IndexLocation]) -> None:
    """What several workers tell is merged in one go, and what stood aside after it."""
    lines = numbered((CASES[0].parent / "job_versions" / "events.ndjson").read_bytes().splitlines())
    found = []
    for place in both:
        parts = [observed([line], FacetOrder.RECEIVED) for line in lines]
        events = [event for part in parts for event in part.events]
        aside = [msgspec.structs.replace(part, events=[]) for part in parts[6:]]
        with IndexWriter(place) as sink:
            sink.apply("test/0", msgspec.structs.replace(ChangeSet.concat(parts[:6]), events=events), aside)
            found.append(contents(sink))
    assert found[0] == found[1]
