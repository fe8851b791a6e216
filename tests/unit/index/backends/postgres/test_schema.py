"""An index built anew in PostgreSQL: as a schema aside, which takes the place of the old one when it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from clew.data_dir import DatabaseUrl
from clew.index.backends import open_backend
from clew.index.changes import ChangeSet, FacetsRow, JobRow
from clew.index.encoding import MIN_TRAINING_SAMPLES, FacetEncoder, StoredFacet, entity_key
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter, build_and_swap

SCHEMAS = "select nspname from pg_namespace where nspname like 'drafts%' order by 1"
INDEXES = "select tablename, indexname from pg_indexes where schemaname = current_schema order by 1, 2"


@pytest.fixture
def index(postgres_places: Any) -> Iterator[DatabaseUrl]:
    place: DatabaseUrl = postgres_places.missing("drafts")
    with IndexWriter(place) as sink:
        sink.apply("app/0", ChangeSet(jobs=[job("daily")]))
    yield place
    open_backend(place).remove()


def job(name: str) -> JobRow:
    return JobRow("shop", name, first_event_at=1, last_event_at=1, first_seq=1, last_seq=1)


def jobs(reader: IndexReader) -> list[str]:
    return [row["name"] for row in reader.query("select name from jobs order by name")]


def rebuilt(place: DatabaseUrl, name: str) -> None:
    with build_and_swap(place) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[job(name)]))


def others_wait(postgres: str) -> bool:
    with psycopg.connect(postgres) as connection:
        found = connection.execute("select count(*) from pg_locks where mode = 'AccessExclusiveLock' and not granted")
        return found.fetchone() != (0,)


def schemas(postgres: str) -> list[str]:
    with psycopg.connect(postgres) as connection:
        return [name for (name,) in connection.execute(SCHEMAS)]


def test_readers_go_on_and_see_the_new_one_when_it_is_whole(index: DatabaseUrl, postgres: str) -> None:
    with IndexReader(index) as reader, IndexReader(index) as other:
        identity = reader.version().identity
        indexes = [tuple(row) for row in reader.query(INDEXES)]
        with ThreadPoolExecutor(1) as pool:
            with reader.snapshot():
                assert jobs(reader) == ["daily"]
                done = pool.submit(rebuilt, index, "nightly")
                # It waits for the end of the question, and lets other questions be asked.
                while not others_wait(postgres):
                    assert not done.done()
                assert jobs(reader) == ["daily"]
                with other.snapshot():
                    assert jobs(other) == ["daily"]
            done.result()
        assert jobs(reader) == jobs(other) == ["nightly"]
        assert reader.version().identity != identity
        assert [tuple(row) for row in reader.query(INDEXES)] == indexes
    assert schemas(postgres) == ["drafts"]


def begin_a_draft(place: DatabaseUrl) -> None:
    with build_and_swap(place) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
        raise RuntimeError("no more")


def test_a_draft_that_fails_leaves_the_index_as_it_was(index: DatabaseUrl, postgres: str) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        begin_a_draft(index)
    with IndexReader(index) as reader:
        assert jobs(reader) == ["daily"]
    assert schemas(postgres) == ["drafts"]


def test_what_an_interrupted_draft_left_is_not_taken_up(index: DatabaseUrl) -> None:
    left = DatabaseUrl(f"{index.text}_staging", index.folder)
    with IndexWriter(left) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[job("left")]))
    with build_and_swap(index) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
    with IndexReader(index) as reader:
        assert jobs(reader) == ["nightly"]


def test_there_need_be_no_old_one(index: DatabaseUrl) -> None:
    open_backend(index).remove()
    with build_and_swap(index) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
    with IndexReader(index) as reader:
        assert jobs(reader) == ["nightly"]


def test_facets_are_read_by_the_dictionary_of_the_index_that_is_there(index: DatabaseUrl) -> None:
    def facet(word: str) -> bytes:
        return b'{"words": "%s"}' % b" ".join(b"%s_%d" % (word.encode(), number) for number in range(20))

    def described(sink: IndexWriter, word: str) -> None:
        sink.train_dictionary([facet(f"{word}_{number % 7}") for number in range(MIN_TRAINING_SAMPLES)])
        body = FacetEncoder(sink.dictionary).encode([StoredFacet("documentation", 1, 1, facet(f"{word}_3"))])
        sink.apply("app/1", ChangeSet(facets=[FacetsRow("job", entity_key("shop", "daily"), 1, body)]))

    with IndexWriter(index) as sink:
        described(sink, "old")
    with IndexReader(index) as reader:
        assert reader.facets("job", "shop", "daily") == {"documentation": facet("old_3")}
        with build_and_swap(index) as sink:
            described(sink, "new")
        assert reader.facets("job", "shop", "daily") == {"documentation": facet("new_3")}
