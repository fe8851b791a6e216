"""The URL of an index: libpq's own, and the schema that the index is in."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from clew.errors import UsageError
from clew.home import DatabaseUrl

DEFAULT_SCHEMA: Final = "clew"
# Room for what is appended to it; PostgreSQL cuts names after 63 bytes.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def schema_in(url: DatabaseUrl) -> str:
    """The schema that a URL names by `?schema=`."""
    try:
        name = dict(parse_qsl(urlsplit(url.text).query)).get("schema", DEFAULT_SCHEMA)
    except ValueError as fault:
        raise malformed(url) from fault
    if not _SCHEMA.fullmatch(name) or name.startswith("pg_"):
        hint = "Use up to 40 small letters, digits and underscores."
        raise UsageError(f"The schema {name!r} in {url} is no name for one.", hint=hint)
    return name


def malformed(url: DatabaseUrl) -> UsageError:
    """Say that a URL is none, or has what no server knows."""
    hint = "Write it as postgresql://user@host:5432/database, and %40 for an @ in a name or a password."
    return UsageError(f"The index cannot be at {url}: the URL is malformed.", hint=hint)


def connection_text(url: DatabaseUrl, seconds: int) -> str:
    """What libpq is told: the URL without what it does not know, and how long to wait for a server."""
    parts = urlsplit(url.text)
    options = {name: value for name, value in parse_qsl(parts.query) if name != "schema"}
    options.setdefault("connect_timeout", str(seconds))
    options.setdefault("application_name", "clew")
    return urlunsplit(parts._replace(query=urlencode(options)))
