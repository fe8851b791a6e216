"""The facet that an entity has: the last received, whole, byte for byte."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data_dir import IndexLocation
from clew.events.facets import FacetOrder
from clew.events.openlineage import decode_openlineage
from clew.index.changes import ChangeSet, FacetsRow
from clew.index.encoding import DELETED, MIN_TRAINING_SAMPLES, FacetDecoder, FacetEncoder, StoredFacet, entity_key
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

pack, unpack = FacetEncoder().encode, FacetDecoder().decode


stored = st.builds(StoredFacet, st.text(), st.integers(0, 2**62), st.integers(-(2**62), 2**62), st.binary())


@given(st.lists(stored))
def test_facets_come_back(facets: list[StoredFacet]) -> None:
    assert unpack(pack(facets)) == facets


@pytest.mark.parametrize(
    ("facet", "is_deleted"),
    [
        (b'{"_deleted": true}', True),
        (b'{"_deleted":true,"x":{"y":1}}', True),
        (b'{"_deleted": false}', False),
        (b'{"_deleted": null}', False),
        (b'{"_deleted": "true"}', False),
        (b'{"x": {"_deleted": true}}', False),
        (b'"\\"_deleted\\""', False),
        (b"{}", False),
    ],
)
def test_only_a_facet_that_says_so_is_deleted(facet: bytes, is_deleted: bool) -> None:
    assert StoredFacet.of("schema", 1, 0, facet).body == (DELETED if is_deleted else facet)


def test_bodies_are_read_by_many_threads() -> None:
    bodies = [b'{"n": %d, "text": "%s"}' % (number, b"x" * number * 50) for number in range(200)]
    facets = [[StoredFacet("schema", 1, 0, body)] for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(unpack, [pack(some) for some in facets] * 5)) == facets * 5


def facet(name: str, seq: int, body: bytes, version: str | None = None, at: int = 0) -> FacetsRow:
    return said(StoredFacet.of(name, seq, at, body), version=version)


def said(*facets: StoredFacet, version: str | None = None) -> FacetsRow:
    last = max(facet.seq for facet in facets)
    return FacetsRow("dataset", entity_key("n", "d", version), last, pack(facets))


@pytest.mark.parametrize(
    ("rows", "name", "body"),
    [
        ([facet("schema", 1, b"1"), facet("schema", 2, b"2")], "schema", b"2"),
        ([facet("schema", 2, b"2"), facet("schema", 1, b"1")], "schema", b"2"),
        ([facet("schema", 1, b"1"), facet("schema", 2, b'{"_deleted": true}')], "schema", None),
        ([facet("schema", 1, b'{"_deleted": true}'), facet("schema", 2, b"2")], "schema", b"2"),
        ([facet("schema", 1, b"1", version="2")], "schema", None),
        ([facet("other", 1, b"1")], "schema", None),
    ],
)
def test_the_last_facet_counts(rows: list[FacetsRow], name: str, body: bytes | None, place: IndexLocation) -> None:
    with IndexWriter(place) as sink:
        for number, row in enumerate(rows):
            sink.apply(str(number), ChangeSet(facets=[row]))
    with IndexReader(place) as reader:
        assert reader.dataset_facet("n", "d", None, name) == body


def test_a_facet_of_the_first_notebook_format_has_the_name_of_today(place: IndexLocation) -> None:
    with IndexWriter(place) as sink:
        for seq, name in enumerate(("dataQualityMetrics", "columnMetrics")):
            observer = ChangeExtractor()
            observer.add(decode_openlineage(dataset_event(name, seq)), f"{seq:032x}", seq)
            sink.apply(str(seq), observer.changes())
    with IndexReader(place) as reader:
        assert reader.dataset_facet("n", "d", None, "dataQualityMetrics") == b'{"rowCount": 1}'
        assert reader.dataset_facet("n", "d", None, "columnMetrics") is None


def dataset_event(facet_name: str, count: int) -> bytes:
    facets = b'{"%s": {"rowCount": %d}}' % (facet_name.encode(), count)
    dataset = b'{"namespace": "n", "name": "d", "facets": %s}' % facets
    return b'{"eventTime": "2026-01-01T10:00:00Z", "dataset": %s}' % dataset


def test_a_dictionary_is_learnt_once_and_what_it_packed_is_read_by_who_came_before(place: IndexLocation) -> None:
    def schema(number: int) -> bytes:
        return (
            b'{"_producer": "https://example.org/producer", "fields": [{"name": "column_%d", "type": "int"}]}' % number
        )

    samples = [schema(number) for number in range(MIN_TRAINING_SAMPLES)]
    with IndexWriter(place) as sink:
        assert sink.dictionary is None
        facets = [StoredFacet(f"f{number}", number, 0, body) for number, body in enumerate(samples)]
        sink.apply("0", ChangeSet(facets=[said(*facets)]))
        learnt = sink.dictionary
        assert learnt is not None
        with IndexReader(place) as reader:
            news = [StoredFacet("late", 9, 0, schema(7777))]
            late = FacetEncoder(learnt).encode(news)
            assert len(late) < len(pack(news))
            key = entity_key("n", "d", None)
            sink.apply("1", ChangeSet(facets=[FacetsRow("dataset", key, 9, late)]))
            assert reader.dataset_facet("n", "d", None, "late") == schema(7777)
            assert reader.dataset_facet("n", "d", None, "f3") == samples[3]
        assert sink.dictionary == learnt


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FacetOrder.RECEIVED, {"a": b"3", "b": b"1", "c": b"3", "d": b"2"}),
        (FacetOrder.EVENT_TIME, {"a": b"1", "b": b"1", "c": b"3", "d": b"2"}),
    ],
)
def test_facets_of_an_entity_are_merged_name_by_name(
    order: FacetOrder, expected: dict[str, bytes], place: IndexLocation
) -> None:
    batches = [
        [StoredFacet("a", 1, 50, b"1"), StoredFacet("b", 1, 50, b"1")],
        [StoredFacet("d", 2, 20, b"2")],
        [StoredFacet("a", 3, 30, b"3"), StoredFacet("c", 3, 30, b"3")],
    ]
    orders = [batches, batches[::-1], [*batches, batches[0]]]
    for number, given_in in enumerate(orders):
        with IndexWriter(place, order) as sink:
            for batch, facets in enumerate(given_in):
                sink.apply(str(batch), ChangeSet(facets=[said(*facets, version=str(number))]))
        with IndexReader(place) as reader:
            assert reader.facets("dataset", "n", "d", str(number)) == expected


def test_a_sink_merges_with_a_dictionary_that_another_has_learnt(place: IndexLocation) -> None:
    news = [StoredFacet("late", 9, 0, b'{"n": 1}')]
    with IndexWriter(place) as sink, IndexWriter(place) as backfill:
        backfill.train_dictionary(
            [b'{"_producer": "https://example.org/producer", "n": %d}' % n for n in range(MIN_TRAINING_SAMPLES)]
        )
        learnt = backfill.dictionary
        assert learnt is not None
        key = entity_key("n", "d", None)
        backfill.apply("0", ChangeSet(facets=[FacetsRow("dataset", key, 9, FacetEncoder(learnt).encode(news))]))
        sink.apply("1", ChangeSet(facets=[facet("early", 1, b"1")]))
    with IndexReader(place) as reader:
        assert reader.facets("dataset", "n", "d", None) == {"early": b"1", "late": b'{"n": 1}'}


def test_a_name_of_today_and_an_earlier_name_of_it_are_one_facet() -> None:
    observer = ChangeExtractor()
    for seq, name in enumerate(("columnMetrics", "dataQualityMetrics", "columnMetrics")):
        observer.add(decode_openlineage(dataset_event(name, seq)), f"{seq:032x}", seq)
    (row,) = observer.changes().facets
    assert unpack(row.body) == [StoredFacet("dataQualityMetrics", 2, 1767261600000000, b'{"rowCount": 2}')]
