"""The UUIDs of facets follow from the event and the place in it, and from nothing else."""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clew.events.ids import event_id
from clew.lake.facet_columns import FacetUuids

events = st.lists(st.binary(), min_size=1, max_size=5, unique=True).map(lambda bodies: list(map(event_id, bodies)))
places = st.lists(st.integers(0, 16**6 - 1), min_size=1, max_size=20, unique=True)


def uuids_of(ids: list[str], numbers: list[int], facets: list[int]) -> list[str]:
    made: list[str] = FacetUuids(ids).build(np.array(numbers, np.int64), np.array(facets, np.int64)).to_pylist()
    return made


def test_a_uuid_is_the_same_on_every_machine() -> None:
    identity = "f9d86028c6e0d64e225186f96acb6933"
    assert uuids_of([identity], [0, 0], [0, 0xAB12]) == [
        "f9d86028-c6e0-864e-8251-86f96a000000",
        "f9d86028-c6e0-864e-8251-86f96a00ab12",
    ]


@given(events, places, st.data())
def test_facets_have_uuids_that_differ(ids: list[str], facets: list[int], data: st.DataObject) -> None:
    number = st.integers(0, len(ids) - 1)
    numbers = data.draw(st.lists(number, min_size=len(facets), max_size=len(facets)))
    made = uuids_of(ids, numbers, facets)
    assert [str(UUID(one)) for one in made] == made
    assert {UUID(one).version for one in made} == {8}
    assert len(set(made)) == len(facets)
    assert made == [uuids_of([ids[event]], [0], [place])[0] for event, place in zip(numbers, facets, strict=True)]


def test_no_facets_have_no_uuids() -> None:
    assert uuids_of([], [], []) == []
    assert uuids_of([event_id(b"")], [], []) == []
