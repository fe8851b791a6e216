"""Names of what lies outside the notebook, by the OpenLineage naming rules."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_URL = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)/?(?P<path>[^?#]*)", re.IGNORECASE)
_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mssql": 1433, "oracle": 1521}
# What stands for itself in a path of a URI, besides letters and digits.
_OF_PATHS = "/:@!$&'()*+,;=~"
# Where a table is that is named without its schema.
_SCHEMAS = {"postgresql": "public", "mssql": "dbo"}
_BACKENDS = {"postgresql": "postgres", "mariadb": "mysql"}


class FileDataset(NamedTuple):
    """A file, an object or a table by its OpenLineage identity."""

    namespace: str
    name: str

    @property
    def label(self) -> str:
        """How it is written where a variable would stand: `file:/data/in.csv`, `s3://bucket/key`."""
        if "://" in self.namespace:
            return f"{self.namespace}/{self.name.lstrip('/')}"
        return f"{self.namespace}:{self.name}"

    @property
    def uri(self) -> str:
        """Where the data is."""
        name = quote(self.name.lstrip("/"), safe=_OF_PATHS)
        return f"{self.namespace}/{name}" if "://" in self.namespace else f"{self.namespace}:///{name}"


def located_at(target: Any) -> FileDataset | None:
    """The dataset behind a path, a URL or an open file; None for what has no name, such as a buffer."""
    if hasattr(target, "read") or hasattr(target, "write"):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, os.PathLike)):
        return None
    text = os.fspath(target)
    if not isinstance(text, str):
        return None
    found = _URL.match(text)
    if found is None:
        return FileDataset("file", str(Path(text).absolute()))
    return _remote(found["scheme"].lower(), found["authority"], found["path"])


def _remote(scheme: str, authority: str, path: str) -> FileDataset:
    if scheme == "file":
        return FileDataset("file", f"/{path.lstrip('/')}")
    scheme = _SCHEMES.get(scheme, scheme)
    # Whoever shares a log must not share the password that stood in a URL.
    host = authority.rpartition("@")[2]
    return FileDataset(f"{scheme}://{host}", path if scheme in {"s3", "gs"} else f"/{path}")


def table_in(connection: Any, table: str) -> FileDataset:
    """The dataset of a table reached through SQLAlchemy, sqlite3 or a connection URL."""
    url = getattr(getattr(connection, "engine", connection), "url", None)
    if url is not None:
        return _database_table(url.get_backend_name(), url.host, url.port, url.database, table)
    if isinstance(connection, str):
        found = _URL.match(connection)
        if found is not None:
            backend = found["scheme"].partition("+")[0]
            host, _, port = found["authority"].rpartition("@")[2].partition(":")
            return _database_table(backend, host, int(port) if port else None, found["path"], table)
    return _sqlite_table(_sqlite_file(connection), table)


def _database_table(backend: str, host: str | None, port: int | None, database: str | None, table: str) -> FileDataset:
    if backend == "sqlite":
        return _sqlite_table(str(Path(database).absolute()) if database else ":memory:", table)
    if "." not in table and backend in _SCHEMAS:
        table = f"{_SCHEMAS[backend]}.{table}"
    place = f"{host or 'localhost'}:{port or _PORTS.get(backend, '')}".rstrip(":")
    return FileDataset(f"{_BACKENDS.get(backend, backend)}://{place}", f"{database}.{table}")


def _sqlite_table(file: str, table: str) -> FileDataset:
    return FileDataset("sqlite", f"{file}.{table.removeprefix('main.')}")


def _sqlite_file(connection: Any) -> str:
    execute = getattr(connection, "execute", None)
    rows = execute("pragma database_list").fetchall() if execute is not None else []
    return next((row[2] for row in rows if row[2]), ":memory:")


_FROM = re.compile(r"\b(?:from|join)\s+([\w.\"`\[\]]+)", re.IGNORECASE)


def tables_of_query(query: str) -> list[str]:
    """The tables that a query reads, as far as its text says; the query itself may be a table's name."""
    if not re.search(r"\s", query.strip()):
        return [query.strip()]
    return [re.sub(r'["`\[\]]', "", name) for name in _FROM.findall(query)]
