"""Tests of ids: they depend only on the bytes."""

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
def test_to_single_line_preserves_the_document(document: object, indent: int | str | None) -> None:
    text = json.dumps(document, indent=indent).replace("\n", "\r\n").encode()
    line = to_single_line(text)
    assert json.loads(line) == document
    assert not set(b"\r\n") & set(line)
    assert to_single_line(line) == line


def test_event_id_is_deterministic() -> None:
    # The first 32 characters of the output of `sha256sum`.
    assert event_id(b'{"a": 1}') == "f9d86028c6e0d64e225186f96acb6933"


@pytest.mark.parametrize("size", [0, 1, 2046, 2047, 2048, 4094, 4095, 100_000])
def test_content_id_holding_gil_equals_event_id(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    assert (
        content_id_holding_gil(body[:size]) == content_id_holding_gil(memoryview(body)[:size]) == event_id(body[:size])
    )


@pytest.mark.parametrize(("first", "second"), [(b"{}", b"{ }"), (b'{"a":1}', b'{"a":1.0}'), (b"", b" ")])
def test_event_id_depends_on_every_byte(first: bytes, second: bytes) -> None:
    assert event_id(first) != event_id(second)
