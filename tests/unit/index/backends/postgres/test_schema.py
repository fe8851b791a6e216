"""Tests of rebuilding an index in PostgreSQL: a staging schema replaces the old one when it is complete."""

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
def index(postgres_schemas: Any) -> Iterator[DatabaseUrl]:
    location: DatabaseUrl = postgres_schemas.missing("drafts")
    with IndexWriter(location) as index_writer:
        index_writer.apply("app/0", ChangeSet(jobs=[job("daily")]))
    yield location
    open_backend(location).remove()


def job(name: str) -> JobRow:
    return JobRow("shop", name, first_event_at=1, last_event_at=1, first_seq=1, last_seq=1)


def job_names(reader: IndexReader) -> list[str]:
    return [row["name"] for row in reader.query("select name from jobs order by name")]


def rebuild(location: DatabaseUrl, name: str) -> None:
    with build_and_swap(location) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[job(name)]))


def has_waiting_lock(postgres: str) -> bool:
    with psycopg.connect(postgres) as connection:
        result = connection.execute("select count(*) from pg_locks where mode = 'AccessExclusiveLock' and not granted")
        return result.fetchone() != (0,)


def schema_names(postgres: str) -> list[str]:
    with psycopg.connect(postgres) as connection:
        return [name for (name,) in connection.execute(SCHEMAS)]


def test_readers_see_the_new_index_after_the_swap(index: DatabaseUrl, postgres: str) -> None:
    with IndexReader(index) as reader, IndexReader(index) as other:
        identity = reader.version().identity
        indexes = [tuple(row) for row in reader.query(INDEXES)]
        with ThreadPoolExecutor(1) as pool:
            with reader.snapshot():
                assert job_names(reader) == ["daily"]
                future = pool.submit(rebuild, index, "nightly")
                # The swap waits for the open snapshot and does not block other readers.
                while not has_waiting_lock(postgres):
                    assert not future.done()
                assert job_names(reader) == ["daily"]
                with other.snapshot():
                    assert job_names(other) == ["daily"]
            future.result()
        assert job_names(reader) == job_names(other) == ["nightly"]
        assert reader.version().identity != identity
        assert [tuple(row) for row in reader.query(INDEXES)] == indexes
    assert schema_names(postgres) == ["drafts"]


def build_and_fail(location: DatabaseUrl) -> None:
    with build_and_swap(location) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
        raise RuntimeError("no more")


def test_failed_build_leaves_the_index_unchanged(index: DatabaseUrl, postgres: str) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        build_and_fail(index)
    with IndexReader(index) as reader:
        assert job_names(reader) == ["daily"]
    assert schema_names(postgres) == ["drafts"]


def test_leftover_of_an_interrupted_build_is_discarded(index: DatabaseUrl) -> None:
    leftover = DatabaseUrl(f"{index.text}_staging", index.folder)
    with IndexWriter(leftover) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[job("left")]))
    with build_and_swap(index) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
    with IndexReader(index) as reader:
        assert job_names(reader) == ["nightly"]


def test_build_without_an_existing_index(index: DatabaseUrl) -> None:
    open_backend(index).remove()
    with build_and_swap(index) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[job("nightly")]))
    with IndexReader(index) as reader:
        assert job_names(reader) == ["nightly"]


def test_reader_uses_the_dictionary_of_the_new_index(index: DatabaseUrl) -> None:
    def facet(word: str) -> bytes:
        return b'{"words": "%s"}' % b" ".join(b"%s_%d" % (word.encode(), number) for number in range(20))

    def add_facet(index_writer: IndexWriter, word: str) -> None:
        index_writer.train_dictionary([facet(f"{word}_{number % 7}") for number in range(MIN_TRAINING_SAMPLES)])
        body = FacetEncoder(index_writer.dictionary).encode([StoredFacet("documentation", 1, 1, facet(f"{word}_3"))])
        index_writer.apply("app/1", ChangeSet(facets=[FacetsRow("job", entity_key("shop", "daily"), 1, body)]))

    with IndexWriter(index) as index_writer:
        add_facet(index_writer, "old")
    with IndexReader(index) as reader:
        assert reader.facets("job", "shop", "daily") == {"documentation": facet("old_3")}
        with build_and_swap(index) as index_writer:
            add_facet(index_writer, "new")
        assert reader.facets("job", "shop", "daily") == {"documentation": facet("new_3")}
