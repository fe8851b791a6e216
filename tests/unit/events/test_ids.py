"""Ids follow from the bytes, and from nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.events.ids import content_id_holding_gil, event_id, to_single_line

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(documents, st.sampled_from([None, 1, "\t", "\r\n"]))
def test_a_document_on_one_line_says_the_same(document: object, indent: int | str | None) -> None:
    text = json.dumps(document, indent=indent).replace("\n", "\r\n").encode()
    line = to_single_line(text)
    assert json.loads(line) == document
    assert not set(b"\r\n") & set(line)
    assert to_single_line(line) == line


def test_the_id_is_the_same_on_every_machine() -> None:
    # As what `sha256sum` prints begins.
    assert event_id(b'{"a": 1}') == "f9d86028c6e0d64e225186f96acb6933"


@pytest.mark.parametrize("size", [0, 1, 2046, 2047, 2048, 4094, 4095, 100_000])
def test_the_id_is_the_same_whoever_makes_it(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    assert (
        content_id_holding_gil(body[:size]) == content_id_holding_gil(memoryview(body)[:size]) == event_id(body[:size])
    )


@pytest.mark.parametrize(("one", "other"), [(b"{}", b"{ }"), (b'{"a":1}', b'{"a":1.0}'), (b"", b" ")])
def test_other_bytes_are_another_event(one: bytes, other: bytes) -> None:
    assert event_id(one) != event_id(other)
