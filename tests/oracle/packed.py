"""The facets that an index holds, each as a row of its own."""

from __future__ import annotations

import sqlite3
from typing import Any

from clew.index.bodies import Unpacker
from clew.index.store import dictionaries_in


def index_facets(index: sqlite3.Connection) -> list[dict[str, Any]]:
    """One row per entity and name; the body of one that was deleted is empty."""
    unpack = Unpacker(dictionaries_in(index)).unpack
    return [
        {
            "kind": kind,
            "entity": entity,
            "last_seq": last_seq,
            "name": facet.name,
            "seq": facet.seq,
            "event_time": facet.event_time,
            "body": facet.body.decode(),
        }
        for kind, entity, last_seq, body in index.execute("select kind, entity, last_seq, body from facets")
        for facet in unpack(body)
    ]
