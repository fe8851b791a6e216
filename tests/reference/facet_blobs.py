"""Tables, views and decoded facets of an index in SQLite or PostgreSQL."""

from __future__ import annotations

import re
from typing import Any

from tests.support.paths import ROOT

from clew.index.backends.base import Database
from clew.index.backends.sqlite import read_dictionaries
from clew.index.encoding import FacetDecoder

SCHEMA = (ROOT / "src" / "clew" / "index" / "schema.sql").read_text()
TABLES: list[str] = re.findall(r"create table if not exists (\w+)", SCHEMA)
VIEWS: list[str] = re.findall(r"create view if not exists (\w+)", SCHEMA)


def index_facets(index: Database) -> list[dict[str, Any]]:
    """Return one row per entity and facet name; the body of a deleted facet is empty."""
    decode = FacetDecoder(read_dictionaries(index)).decode
    return [
        {
            "kind": kind,
            "entity_key": entity,
            "last_seq": last_seq,
            "name": facet.name,
            "seq": facet.seq,
            "event_time": facet.event_time,
            "body": facet.body.decode(),
        }
        for kind, entity, last_seq, body in index.execute("select kind, entity_key, last_seq, body from facets")
        for facet in decode(body)
    ]
