"""Names of external datasets (files, objects, tables) by the OpenLineage naming rules."""

from __future__ import annotations

import itertools
import os
import re
import weakref
from collections.abc import Callable, Mapping
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
    """A file, an object or a table by its OpenLineage identity.

    Data that only the process has (an in-memory database, a buffer) has no namespace: events name it like a frame.
    """

    namespace: str
    name: str

    @property
    def label(self) -> str:
        """Label in place of a variable name: `file:/data/in.csv`, `s3://bucket/key`."""
        if "://" in self.namespace:
            return f"{self.namespace}/{self.name.lstrip('/')}"
        return f"{self.namespace}:{self.name}" if self.namespace else self.name

    @property
    def uri(self) -> str:
        """URI of the data."""
        name = quote(self.name.lstrip("/"), safe=_PATH_SAFE)
        if not self.namespace:
            return f"memory:{name}"
        return f"{self.namespace}/{name}" if "://" in self.namespace else f"{self.namespace}:///{name}"


def file_size(dataset: ExternalDataset) -> int | None:
    """Return the size of a local file in bytes; None if it is not a local file."""
    if dataset.namespace != "file":
        return None
    try:
        path = Path(dataset.name)
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


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


def buffer_dataset(function: str, source: Any) -> ExternalDataset:
    """Return the dataset of data without a name that a function read: `read_csv(BytesIO)`."""
    return ExternalDataset("", f"{function}({type(source).__name__})")


def table_dataset(connection: Any, table: str) -> ExternalDataset:
    """Return the dataset of a table in a database reached through SQLAlchemy, a DB-API driver or a connection URL."""
    return table_namer(connection)(table)


def table_namer(connection: Any) -> Callable[[str], ExternalDataset]:
    """Return a function that returns the dataset of a table; it does not keep the connection."""
    engine = getattr(connection, "engine", connection)
    url = getattr(engine, "url", None)
    if url is not None and hasattr(url, "get_backend_name"):
        return _database_namer(url.get_backend_name(), url.host, url.port, url.database, engine)
    match = _URL.match(connection) if isinstance(connection, str) else None
    if match is not None:
        backend = match["scheme"].partition("+")[0]
        host, _, port = match["authority"].rpartition("@")[2].partition(":")
        return _database_namer(backend, host, int(port) if port else None, match["path"], connection)
    if is_sqlite_connection(connection):
        files = sqlite_files(connection)
        # An empty name is a database in memory.
        memory = memory_name(connection, "sqlite") if "" in files.values() else ""
        return lambda table: _sqlite_table(files, memory, table)
    info: Any = getattr(connection, "info", None)
    driver = type(connection).__module__.partition(".")[0]
    if hasattr(info, "dbname"):
        # A path is the folder of a local socket.
        host = None if str(info.host).startswith("/") else info.host
        return _database_namer("postgresql", host, info.port, info.dbname, connection)
    return lambda table: ExternalDataset(driver, table)


def qualify_table(table: str, databases: Mapping[str, Any], current: str) -> tuple[str, str, str]:
    """Return the database, the schema and the name of a table in DuckDB."""
    *prefix, name = table.lower().split(".")
    catalog = prefix.pop(0) if prefix and (len(prefix) > 1 or prefix[0] in databases) else current
    return catalog, ".".join(prefix) or "main", name


def attached_table(databases: Mapping[str, tuple[str, str]], current: str, table: str) -> ExternalDataset:
    """Return the dataset of a table in DuckDB; `databases` are the paths and types of the attached databases."""
    catalog, schema, name = qualify_table(table, databases, current)
    path, kind = databases.get(catalog, (":memory:", "duckdb"))
    name = name if schema == "main" else f"{schema}.{name}"
    if path.startswith(":memory:"):
        return ExternalDataset("", f"duckdb:{path}.{'' if catalog == 'memory' else f'{catalog}.'}{name}")
    if kind in ("duckdb", "sqlite"):
        return ExternalDataset(kind, f"{path if _URL.match(path) else Path(path).absolute()}.{name}")
    # A connection string.
    options = dict(re.findall(r"(\w+)=(\S+)", path))
    backend, port = {"postgres": "postgresql"}.get(kind, kind), options.get("port", "")
    database = options.get("dbname") or options.get("database")
    return _database_namer(backend, options.get("host"), int(port) if port.isdigit() else None, database, path)(name)


def _database_namer(
    backend: str, host: str | None, port: int | None, database: str | None, owner: Any
) -> Callable[[str], ExternalDataset]:
    if backend in ("sqlite", "duckdb"):
        file = (database or "").removeprefix("file:").partition("?")[0]
        if not file or file == ":memory:":
            memory = memory_name(owner, backend)
            return lambda table: ExternalDataset("", f"{backend}:{memory}.{table.removeprefix('main.')}")
        path = Path(file).absolute()
        return lambda table: ExternalDataset(backend, f"{path}.{table.removeprefix('main.')}")
    authority = f"{host or 'localhost'}:{port or _DEFAULT_PORTS.get(backend, '')}".rstrip(":")
    prefix = f"{_DEFAULT_SCHEMAS[backend]}." if backend in _DEFAULT_SCHEMAS else ""
    namespace = f"{_BACKENDS.get(backend, backend)}://{authority}"
    return lambda table: ExternalDataset(namespace, f"{database}.{'' if '.' in table else prefix}{table}")


def _sqlite_table(files: dict[str, str], memory: str, table: str) -> ExternalDataset:
    schema, _, name = table.rpartition(".")
    if schema and schema.lower() not in files:
        # The name itself contains a dot.
        schema, name = "", table
    file = files.get(schema.lower() or "main")
    prefix = f"{schema}." if schema.lower() not in ("", "main") else ""
    return (
        ExternalDataset("sqlite", f"{file}.{name}") if file else ExternalDataset("", f"sqlite:{memory}.{prefix}{name}")
    )


def is_sqlite_connection(connection: Any) -> bool:
    """Return whether a connection is one of sqlite3 or of a subclass."""
    return _sqlite_class(connection) is not None


def _sqlite_class(connection: Any) -> Any:
    # The class of the standard library, not a subclass.
    bases = reversed(type(connection).__mro__)
    return next((base for base in bases if (base.__module__, base.__name__) == ("sqlite3", "Connection")), None)


def sqlite_cursor(connection: Any) -> Any:
    """Return a cursor of its own: the user's factories are not called and no result is discarded."""
    cursor = _sqlite_class(connection).cursor(connection)
    cursor.row_factory = None
    return cursor


def sqlite_files(connection: Any) -> dict[str, str]:
    """Return the files of a sqlite3 connection by schema; an empty name is a database in memory."""
    rows = sqlite_cursor(connection).execute("pragma database_list").fetchall()
    return {as_text(name): as_text(file) for _, name, file in rows}


def as_text(value: Any) -> str:
    """Return text that a `text_factory` returns as bytes."""
    return value.decode() if isinstance(value, bytes) else value or ""


def read_sqlite_schema(connection: Any, text: str) -> dict[str, tuple[str, list[str]]]:
    """Return name and columns of the tables of a sqlite3 connection that a text mentions, by lower-case name."""
    schema: dict[str, tuple[str, list[str]]] = {}
    try:
        cursor, words = sqlite_cursor(connection), text.lower()
        for name in sqlite_files(connection):
            master = "sqlite_temp_master" if name == "temp" else f'"{name}".sqlite_master'
            rows = cursor.execute(f"select name from {master} where type in ('table', 'view')").fetchall()  # noqa: S608
            for table in [as_text(row[0]) for row in rows]:
                if table.lower() not in words:
                    continue
                quoted = table.replace('"', '""')
                columns = [as_text(row[1]) for row in cursor.execute(f'pragma "{name}".table_info("{quoted}")')]
                schema[f"{name}.{table}".lower()] = (f"{name}.{table}", columns)
                schema.setdefault(table.lower(), (table if name == "main" else f"{name}.{table}", columns))
    except Exception:  # noqa: BLE001 - used by another thread, closed or locked: the lineage is marked INFERRED
        return {}
    return schema


_memory_numbers: dict[int, tuple[Any, str]] = {}
_counters: dict[str, Any] = {}


def memory_name(owner: Any, kind: str) -> str:
    """Return `:memory:` with the number of an in-memory database; `owner` is its connection or engine."""
    entry = _memory_numbers.get(id(owner))
    if entry is not None and entry[0]() is owner:
        return entry[1]
    number = next(_counters.setdefault(kind, itertools.count(1)))
    name = ":memory:" if number == 1 else f":memory:{number}"
    key = id(owner)
    try:
        reference: Any = weakref.ref(owner, lambda _: _memory_numbers.pop(key, None))
    except TypeError:
        # A plain sqlite3 connection: keep it, so that its id is not reused.
        def reference(kept: Any = owner) -> Any:
            return kept

    _memory_numbers[key] = (reference, name)
    return name
