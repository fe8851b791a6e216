"""A received event before it is decoded."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from clew.events.documents import Document


class ReceivedEvent(NamedTuple):
    """The bytes of an event, its content hash, and where and when it was received."""

    event_id: str
    seq: int
    received_at: datetime
    source: str
    body: Document
