"""Tests of facet encoding and merging: the last facet received counts, whole and byte for byte."""

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

encode, decode = FacetEncoder().encode, FacetDecoder().decode


stored_facets = st.builds(StoredFacet, st.text(), st.integers(0, 2**62), st.integers(-(2**62), 2**62), st.binary())


@given(st.lists(stored_facets))
def test_encode_decode_round_trip(facets: list[StoredFacet]) -> None:
    assert decode(encode(facets)) == facets


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
def test_deleted_marker_must_be_true(facet: bytes, is_deleted: bool) -> None:
    assert StoredFacet.of("schema", 1, 0, facet).body == (DELETED if is_deleted else facet)


def test_decode_is_thread_safe() -> None:
    bodies = [b'{"n": %d, "text": "%s"}' % (number, b"x" * number * 50) for number in range(200)]
    facets = [[StoredFacet("schema", 1, 0, body)] for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(decode, [encode(group) for group in facets] * 5)) == facets * 5


def facet(name: str, seq: int, body: bytes, version: str | None = None, event_time: int = 0) -> FacetsRow:
    return facets_row(StoredFacet.of(name, seq, event_time, body), version=version)


def facets_row(*facets: StoredFacet, version: str | None = None) -> FacetsRow:
    last = max(facet.seq for facet in facets)
    return FacetsRow("dataset", entity_key("n", "d", version), last, encode(facets))


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
def test_last_facet_counts(rows: list[FacetsRow], name: str, body: bytes | None, index_location: IndexLocation) -> None:
    with IndexWriter(index_location) as index_writer:
        for number, row in enumerate(rows):
            index_writer.apply(str(number), ChangeSet(facets=[row]))
    with IndexReader(index_location) as reader:
        assert reader.dataset_facet("n", "d", None, name) == body


def test_facet_alias_is_stored_under_its_canonical_name(index_location: IndexLocation) -> None:
    with IndexWriter(index_location) as index_writer:
        for seq, name in enumerate(("dataQualityMetrics", "columnMetrics")):
            extractor = ChangeExtractor()
            extractor.add(decode_openlineage(dataset_event(name, seq)), f"{seq:032x}", seq)
            index_writer.apply(str(seq), extractor.changes())
    with IndexReader(index_location) as reader:
        assert reader.dataset_facet("n", "d", None, "dataQualityMetrics") == b'{"rowCount": 1}'
        assert reader.dataset_facet("n", "d", None, "columnMetrics") is None


def dataset_event(facet_name: str, count: int) -> bytes:
    facets = b'{"%s": {"rowCount": %d}}' % (facet_name.encode(), count)
    dataset = b'{"namespace": "n", "name": "d", "facets": %s}' % facets
    return b'{"eventTime": "2026-01-01T10:00:00Z", "dataset": %s}' % dataset


def test_dictionary_is_trained_once_and_used_by_open_readers(
    index_location: IndexLocation,
) -> None:
    def schema(number: int) -> bytes:
        return (
            b'{"_producer": "https://example.org/producer", "fields": [{"name": "column_%d", "type": "int"}]}' % number
        )

    samples = [schema(number) for number in range(MIN_TRAINING_SAMPLES)]
    with IndexWriter(index_location) as index_writer:
        assert index_writer.dictionary is None
        facets = [StoredFacet(f"f{number}", number, 0, body) for number, body in enumerate(samples)]
        index_writer.apply("0", ChangeSet(facets=[facets_row(*facets)]))
        dictionary = index_writer.dictionary
        assert dictionary is not None
        with IndexReader(index_location) as reader:
            new_facets = [StoredFacet("late", 9, 0, schema(7777))]
            encoded = FacetEncoder(dictionary).encode(new_facets)
            assert len(encoded) < len(encode(new_facets))
            key = entity_key("n", "d", None)
            index_writer.apply("1", ChangeSet(facets=[FacetsRow("dataset", key, 9, encoded)]))
            assert reader.dataset_facet("n", "d", None, "late") == schema(7777)
            assert reader.dataset_facet("n", "d", None, "f3") == samples[3]
        assert index_writer.dictionary == dictionary


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FacetOrder.RECEIVED, {"a": b"3", "b": b"1", "c": b"3", "d": b"2"}),
        (FacetOrder.EVENT_TIME, {"a": b"1", "b": b"1", "c": b"3", "d": b"2"}),
    ],
)
def test_facets_of_an_entity_are_merged_by_name(
    order: FacetOrder, expected: dict[str, bytes], index_location: IndexLocation
) -> None:
    batches = [
        [StoredFacet("a", 1, 50, b"1"), StoredFacet("b", 1, 50, b"1")],
        [StoredFacet("d", 2, 20, b"2")],
        [StoredFacet("a", 3, 30, b"3"), StoredFacet("c", 3, 30, b"3")],
    ]
    orders = [batches, batches[::-1], [*batches, batches[0]]]
    for number, ordered_batches in enumerate(orders):
        with IndexWriter(index_location, order) as index_writer:
            for batch, facets in enumerate(ordered_batches):
                index_writer.apply(str(batch), ChangeSet(facets=[facets_row(*facets, version=str(number))]))
        with IndexReader(index_location) as reader:
            assert reader.facets("dataset", "n", "d", str(number)) == expected


def test_merges_facets_encoded_with_a_dictionary_of_another_writer(index_location: IndexLocation) -> None:
    facets = [StoredFacet("late", 9, 0, b'{"n": 1}')]
    with IndexWriter(index_location) as index_writer, IndexWriter(index_location) as backfill:
        backfill.train_dictionary(
            [b'{"_producer": "https://example.org/producer", "n": %d}' % n for n in range(MIN_TRAINING_SAMPLES)]
        )
        dictionary = backfill.dictionary
        assert dictionary is not None
        key = entity_key("n", "d", None)
        backfill.apply("0", ChangeSet(facets=[FacetsRow("dataset", key, 9, FacetEncoder(dictionary).encode(facets))]))
        index_writer.apply("1", ChangeSet(facets=[facet("early", 1, b"1")]))
    with IndexReader(index_location) as reader:
        assert reader.facets("dataset", "n", "d", None) == {"early": b"1", "late": b'{"n": 1}'}


def test_facet_and_its_alias_are_merged() -> None:
    extractor = ChangeExtractor()
    for seq, name in enumerate(("columnMetrics", "dataQualityMetrics", "columnMetrics")):
        extractor.add(decode_openlineage(dataset_event(name, seq)), f"{seq:032x}", seq)
    (row,) = extractor.changes().facets
    assert decode(row.body) == [StoredFacet("dataQualityMetrics", 2, 1767261600000000, b'{"rowCount": 2}')]
