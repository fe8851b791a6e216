"""Namespaces of an event, for authorization."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from clew.events.documents import Document


class _Entity(Struct):
    namespace: str = ""


class _Event(Struct):
    job: _Entity | None = None
    dataset: _Entity | None = None


_decode = msgspec.json.Decoder(_Event).decode


def event_namespaces(body: Document) -> list[str]:
    """Return the namespaces of the event's job and dataset; empty if it cannot be parsed.

    Inputs and outputs do not count: jobs use datasets of other namespaces.
    """
    try:
        event = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [entity.namespace for entity in (event.job, event.dataset) if entity is not None and entity.namespace]
