"""How an event came in."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from clew.events.documents import Document


class Arrival(NamedTuple):
    """An event's bytes, the id that follows from them, and where and when they were received."""

    event_id: str
    seq: int
    received_at: datetime
    source: str
    body: Document
