"""Names of external datasets (files, objects, tables) by the OpenLineage naming rules."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_URL = re.compile(r"^(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)/?(?P<path>[^?#]*)", re.IGNORECASE)
_DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306, "mariadb": 3306, "mssql": 1433, "oracle": 1521}
# Characters that need no escaping in a URI path, besides letters and digits.
_PATH_SAFE = "/:@!$&'()*+,;=~"
# Schema of a table that is named without one.
_DEFAULT_SCHEMAS = {"postgresql": "public", "mssql": "dbo"}
_BACKENDS = {"postgresql": "postgres", "mariadb": "mysql"}


class ExternalDataset(NamedTuple):
    """A file, an object or a table by its OpenLineage identity."""

    namespace: str
    name: str

    @property
    def label(self) -> str:
        """Label in place of a variable name: `file:/data/in.csv`, `s3://bucket/key`."""
        if "://" in self.namespace:
            return f"{self.namespace}/{self.name.lstrip('/')}"
        return f"{self.namespace}:{self.name}"

    @property
    def uri(self) -> str:
        """URI of the data."""
        name = quote(self.name.lstrip("/"), safe=_PATH_SAFE)
        return f"{self.namespace}/{name}" if "://" in self.namespace else f"{self.namespace}:///{name}"


def dataset_at(target: Any) -> ExternalDataset | None:
    """Return the dataset of a path, a URL or an open file; None if it has no name, such as a buffer."""
    if hasattr(target, "read") or hasattr(target, "write"):
        target = getattr(target, "name", None)
    if not isinstance(target, (str, os.PathLike)):
        return None
    text = os.fspath(target)
    if not isinstance(text, str):
        return None
    match = _URL.match(text)
    if match is None:
        return ExternalDataset("file", str(Path(text).absolute()))
    return _remote_dataset(match["scheme"].lower(), match["authority"], match["path"])


def _remote_dataset(scheme: str, authority: str, path: str) -> ExternalDataset:
    if scheme == "file":
        return ExternalDataset("file", f"/{path.lstrip('/')}")
    scheme = _SCHEMES.get(scheme, scheme)
    # Drop credentials from the URL.
    host = authority.rpartition("@")[2]
    return ExternalDataset(f"{scheme}://{host}", path if scheme in {"s3", "gs"} else f"/{path}")


def table_dataset(connection: Any, table: str) -> ExternalDataset:
    """Return the dataset of a table in a database reached through SQLAlchemy, sqlite3 or a connection URL."""
    url = getattr(getattr(connection, "engine", connection), "url", None)
    if url is not None:
        return _database_table(url.get_backend_name(), url.host, url.port, url.database, table)
    if isinstance(connection, str):
        match = _URL.match(connection)
        if match is not None:
            backend = match["scheme"].partition("+")[0]
            host, _, port = match["authority"].rpartition("@")[2].partition(":")
            return _database_table(backend, host, int(port) if port else None, match["path"], table)
    return _sqlite_table(_sqlite_file(connection), table)


def _database_table(
    backend: str, host: str | None, port: int | None, database: str | None, table: str
) -> ExternalDataset:
    if backend == "sqlite":
        return _sqlite_table(str(Path(database).absolute()) if database else ":memory:", table)
    if "." not in table and backend in _DEFAULT_SCHEMAS:
        table = f"{_DEFAULT_SCHEMAS[backend]}.{table}"
    authority = f"{host or 'localhost'}:{port or _DEFAULT_PORTS.get(backend, '')}".rstrip(":")
    return ExternalDataset(f"{_BACKENDS.get(backend, backend)}://{authority}", f"{database}.{table}")


def _sqlite_table(file: str, table: str) -> ExternalDataset:
    return ExternalDataset("sqlite", f"{file}.{table.removeprefix('main.')}")


def _sqlite_file(connection: Any) -> str:
    execute = getattr(connection, "execute", None)
    rows = execute("pragma database_list").fetchall() if execute is not None else []
    return next((row[2] for row in rows if row[2]), ":memory:")


_FROM = re.compile(r"\b(?:from|join)\s+([\w.\"`\[\]]+)", re.IGNORECASE)


def tables_in_query(query: str) -> list[str]:
    """Return the tables after FROM and JOIN in a query; the query itself may be a table name."""
    if not re.search(r"\s", query.strip()):
        return [query.strip()]
    return [re.sub(r'["`\[\]]', "", name) for name in _FROM.findall(query)]
