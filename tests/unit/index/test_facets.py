"""The facet that an entity has: the last received, whole, byte for byte."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.events.openlineage import decode
from clew.index.bodies import DELETED, ENOUGH_SAMPLES, Packer, Unpacker
from clew.index.changes import Changes, FacetRow
from clew.index.keys import entity
from clew.index.observer import Observer
from clew.index.reader import IndexReader
from clew.index.sink import IndexSink

pack, unpack = Packer().pack, Unpacker().unpack


@given(st.binary(min_size=1).filter(lambda body: b"_deleted" not in body))
def test_a_body_comes_back(body: bytes) -> None:
    assert unpack(pack(body)) == body


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
    assert (pack(facet) == DELETED) is is_deleted


def test_bodies_are_read_by_many_threads() -> None:
    bodies = [b'{"n": %d, "text": "%s"}' % (number, b"x" * number * 50) for number in range(200)]
    packed = [pack(body) for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(unpack, packed * 5)) == bodies * 5


def facet(name: str, seq: int, body: bytes, version: str | None = None) -> FacetRow:
    return FacetRow("dataset", entity("n", "d", version, None), name, seq, 0, pack(body))


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
def test_the_last_facet_counts(rows: list[FacetRow], name: str, body: bytes | None, tmp_path: Path) -> None:
    with IndexSink(tmp_path / "index") as sink:
        for number, row in enumerate(rows):
            sink.apply(str(number), Changes(facets=[row]))
    with IndexReader(tmp_path / "index") as reader:
        assert reader.dataset_facet("n", "d", None, name) == body


def test_a_facet_of_the_first_notebook_format_has_the_name_of_today(tmp_path: Path) -> None:
    with IndexSink(tmp_path / "index") as sink:
        for seq, name in enumerate(("dataQualityMetrics", "columnMetrics")):
            observer = Observer()
            observer.note(decode(dataset_event(name, seq)), f"e{seq}", seq)
            sink.apply(str(seq), observer.changes())
    with IndexReader(tmp_path / "index") as reader:
        assert reader.dataset_facet("n", "d", None, "dataQualityMetrics") == b'{"rowCount": 1}'
        assert reader.dataset_facet("n", "d", None, "columnMetrics") is None


def dataset_event(facet_name: str, count: int) -> bytes:
    facets = b'{"%s": {"rowCount": %d}}' % (facet_name.encode(), count)
    dataset = b'{"namespace": "n", "name": "d", "facets": %s}' % facets
    return b'{"eventTime": "2026-01-01T10:00:00Z", "dataset": %s}' % dataset


def test_a_dictionary_is_learnt_once_and_what_it_packed_is_read_by_who_came_before(tmp_path: Path) -> None:
    def schema(number: int) -> bytes:
        return (
            b'{"_producer": "https://example.org/producer", "fields": [{"name": "column_%d", "type": "int"}]}' % number
        )

    samples = [schema(number) for number in range(ENOUGH_SAMPLES)]
    with IndexSink(tmp_path / "index") as sink:
        assert sink.dictionary is None
        sink.apply("0", Changes(facets=[facet(f"f{n}", n, body) for n, body in enumerate(samples)]))
        learnt = sink.dictionary
        assert learnt is not None
        with IndexReader(tmp_path / "index") as reader:
            late = Packer(learnt).pack(schema(7777))
            assert len(late) < len(pack(schema(7777)))
            key = entity("n", "d", None, None)
            sink.apply("1", Changes(facets=[FacetRow("dataset", key, "late", 9, 0, late)]))
            assert reader.dataset_facet("n", "d", None, "late") == schema(7777)
            assert reader.dataset_facet("n", "d", None, "f3") == samples[3]
        assert sink.dictionary == learnt
