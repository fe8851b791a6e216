"""URLs of PostgreSQL indexes: a libpq URL with an additional `schema` parameter."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from clew.errors import UsageError
from clew.home import DatabaseUrl

DEFAULT_SCHEMA: Final = "clew"
# Leaves room for suffixes: PostgreSQL truncates names to 63 bytes.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def parse_schema_name(url: DatabaseUrl) -> str:
    """Return the schema in the `?schema=` parameter of a URL."""
    try:
        name = dict(parse_qsl(urlsplit(url.text).query)).get("schema", DEFAULT_SCHEMA)
    except ValueError as error:
        raise malformed_url_error(url) from error
    if not _SCHEMA.fullmatch(name) or name.startswith("pg_"):
        hint = "Use up to 40 lower-case letters, digits and underscores."
        raise UsageError(f"The schema {name!r} in {url} is not a valid name.", hint=hint)
    return name


def malformed_url_error(url: DatabaseUrl) -> UsageError:
    """Create the error for a malformed URL."""
    hint = "Write it as postgresql://user@host:5432/database, and %40 for an @ in a name or a password."
    return UsageError(f"The index URL {url} is malformed.", hint=hint)


def libpq_url(url: DatabaseUrl, seconds: int) -> str:
    """Return the URL for libpq: without `schema`, with a connection timeout and the application name."""
    parts = urlsplit(url.text)
    options = {name: value for name, value in parse_qsl(parts.query) if name != "schema"}
    options.setdefault("connect_timeout", str(seconds))
    options.setdefault("application_name", "clew")
    return urlunsplit(parts._replace(query=urlencode(options)))
