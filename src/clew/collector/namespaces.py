"""The namespaces that an event is about."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from clew.events.documents import Document


class _Named(Struct):
    namespace: str = ""


class _Event(Struct):
    job: _Named | None = None
    dataset: _Named | None = None


_decode = msgspec.json.Decoder(_Event).decode


def namespaces_of(body: Document) -> list[str]:
    """That of its job, or of the dataset that it describes; none where they cannot be told.

    Inputs and outputs do not count: by nature, a job names datasets that are not its own.
    """
    try:
        event = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [named.namespace for named in (event.job, event.dataset) if named is not None and named.namespace]
