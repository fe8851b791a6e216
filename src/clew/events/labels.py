"""Parsers of the tags and ownership facets."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import decode_facet, get_objects, get_str


class Tag(NamedTuple):
    """A tag of an entity, or of a column (`field`) of a dataset."""

    field: str | None
    key: str
    value: str | None
    source: str | None


class Owner(NamedTuple):
    """An owner and their role (`type`)."""

    owner: str
    type: str | None


def parse_tags(facet: bytes) -> list[Tag]:
    """Parse a `tags` facet of a run, a job or a dataset."""
    tags = get_objects(decode_facet(facet), "tags")
    return [
        Tag(get_str(tag, "field"), key, get_str(tag, "value"), get_str(tag, "source"))
        for tag in tags
        if (key := get_str(tag, "key")) is not None
    ]


def parse_owners(facet: bytes) -> list[Owner]:
    """Parse an `ownership` facet."""
    owners = get_objects(decode_facet(facet), "owners")
    return [Owner(name, get_str(owner, "type")) for owner in owners if (name := get_str(owner, "name")) is not None]
