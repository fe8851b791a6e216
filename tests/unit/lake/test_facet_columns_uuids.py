"""Tests of facet UUIDs: they depend only on the event and the position of the facet."""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clew.events.ids import event_id
from clew.lake.facet_columns import build_facet_uuids, uuid_prefix

events = st.lists(st.binary(), min_size=1, max_size=5, unique=True).map(lambda bodies: list(map(event_id, bodies)))
positions = st.lists(st.integers(0, 16**6 - 1), min_size=1, max_size=20, unique=True)


def build_uuids(ids: list[str], numbers: list[int], facets: list[int]) -> list[str]:
    prefixes = list(map(uuid_prefix, ids))
    uuids: list[str] = build_facet_uuids(prefixes, np.array(numbers, np.int64), np.array(facets, np.int64)).to_pylist()
    return uuids


def test_uuids_are_deterministic() -> None:
    identity = "f9d86028c6e0d64e225186f96acb6933"
    assert build_uuids([identity], [0, 0], [0, 0xAB12]) == [
        "f9d86028-c6e0-864e-8251-86f96a000000",
        "f9d86028-c6e0-864e-8251-86f96a00ab12",
    ]


@given(events, positions, st.data())
def test_uuids_are_unique(ids: list[str], facets: list[int], data: st.DataObject) -> None:
    number = st.integers(0, len(ids) - 1)
    numbers = data.draw(st.lists(number, min_size=len(facets), max_size=len(facets)))
    uuids = build_uuids(ids, numbers, facets)
    assert [str(UUID(uuid)) for uuid in uuids] == uuids
    assert {UUID(uuid).version for uuid in uuids} == {8}
    assert len(set(uuids)) == len(facets)
    assert uuids == [
        build_uuids([ids[event]], [0], [position])[0] for event, position in zip(numbers, facets, strict=True)
    ]


def test_no_facets_give_no_uuids() -> None:
    assert build_uuids([], [], []) == []
    assert build_uuids([event_id(b"")], [], []) == []
