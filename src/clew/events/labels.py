"""What people stick to runs, jobs and datasets: tags and owners."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import objects_in, text_in, value_of


class Tag(NamedTuple):
    """A tag; `field` is the column that it is on, if it is not on the whole."""

    field: str | None
    key: str
    value: str | None
    source: str | None


class Owner(NamedTuple):
    """An owner, and in which role."""

    owner: str
    type: str | None


def tags_of(facet: bytes) -> list[Tag]:
    """Read a `tags` facet, of a run, a job or a dataset."""
    found = objects_in(value_of(facet), "tags")
    return [
        Tag(text_in(tag, "field"), key, text_in(tag, "value"), text_in(tag, "source"))
        for tag in found
        if (key := text_in(tag, "key")) is not None
    ]


def owners_of(facet: bytes) -> list[Owner]:
    """Read an `ownership` facet."""
    found = objects_in(value_of(facet), "owners")
    return [Owner(name, text_in(owner, "type")) for owner in found if (name := text_in(owner, "name")) is not None]
