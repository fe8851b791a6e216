"""How an entity is named in the index: its identity in one text."""

from __future__ import annotations

from typing import Final

# A character that no producer writes into a name.
BETWEEN_PARTS: Final = "\x1f"


def entity(*parts: str | None) -> str:
    """Join the parts of an identity; an absent part is empty."""
    # A list, since `join` makes one of anything else.
    return BETWEEN_PARTS.join([part or "" for part in parts])


def dataset_entity(namespace: str, name: str, version: str | None) -> str:
    """The same for a version of a dataset: asked for with every event."""
    return f"{namespace}{BETWEEN_PARTS}{name}{BETWEEN_PARTS}{version or ''}"


def used_entity(run_uuid: str | None, dataset: str) -> str:
    """A version of a dataset as a run read or wrote it. The run first: what comes together stands together."""
    return f"{run_uuid or ''}{BETWEEN_PARTS}{dataset}"


def parts(key: str) -> list[str | None]:
    """The parts that were joined; one that is empty was absent."""
    return [part or None for part in key.split(BETWEEN_PARTS)]


def after(beginning: str) -> str:
    """The least text behind all keys that begin so, where a part ends."""
    return beginning.removesuffix(BETWEEN_PARTS) + chr(ord(BETWEEN_PARTS) + 1)
