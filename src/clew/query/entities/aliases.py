"""Addresses of another catalog that is replaced: names of jobs, and ids of versions. Written by an import."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from clew.data_dir import DatabaseUrl, IndexLocation

_FILE = "aliases.sqlite"
_SCHEMA = """
create table if not exists jobs (namespace text, alias text, name text not null, primary key (namespace, alias))
    without rowid;
create table if not exists versions (id text primary key, namespace text not null, name text not null,
    run_uuid text not null) without rowid;
"""


class JobAlias(NamedTuple):
    """Another name of a job, and its name in events."""

    namespace: str
    alias: str
    name: str


class VersionAlias(NamedTuple):
    """Id of a version of a dataset or job, and the run that made it."""

    id: str
    namespace: str
    name: str
    run_uuid: str


class AliasStore:
    """Reads and writes the file of aliases beside the index; without a file there are none."""

    def __init__(self, index: IndexLocation) -> None:
        self._path = (index.folder if isinstance(index, DatabaseUrl) else index.parent) / _FILE

    def write(self, jobs: Iterable[JobAlias], versions: Iterable[VersionAlias]) -> int:
        """Add or replace aliases; return the number of all."""
        with self._connect(self._path) as database, database:
            database.executescript(_SCHEMA)
            database.executemany("insert or replace into jobs values (?, ?, ?)", jobs)
            database.executemany("insert or replace into versions values (?, ?, ?, ?)", versions)
            query = "select (select count(*) from jobs) + (select count(*) from versions)"
            return int(database.execute(query).fetchone()[0])

    def erase(self, is_erased: Callable[[str, str], bool]) -> int:
        """Delete the aliases of erased entities, by namespace and name; return their number."""
        if not self._path.exists():
            return 0
        with self._connect(self._path) as database, database:
            database.create_function("is_erased", 2, is_erased)
            database.execute("pragma secure_delete = on")
            queries = (
                "delete from jobs where is_erased(namespace, name) or is_erased(namespace, alias)",
                "delete from versions where is_erased(namespace, name)",
            )
            return sum(database.execute(query).rowcount for query in queries)

    def find_job(self, namespace: str, alias: str) -> str | None:
        """Return the name of a job in events."""
        rows = self._select("select name from jobs where namespace = ? and alias = ?", namespace, alias)
        return None if rows is None else str(rows[0])

    def find_node_id(self, node_id: str) -> str | None:
        """Return the node id of a job in events."""
        name = node_id.removeprefix("job:")
        # Both parts can contain colons.
        splits = [(name[:end], name[end + 1 :]) for end, character in enumerate(name) if character == ":"]
        query = """select namespace, name from json_each(?) split
            cross join jobs on namespace = value ->> 0 and alias = value ->> 1"""
        row = self._select(query, json.dumps(splits))
        return None if row is None else f"job:{row[0]}:{row[1]}"

    def find_version(self, version: str) -> VersionAlias | None:
        """Return the entity and the run of a version."""
        row = self._select("select * from versions where id = ?", version.lower())
        return None if row is None else VersionAlias(*row)

    def _select(self, query: str, *values: str) -> tuple[str, ...] | None:
        if not self._path.exists():
            return None
        with self._connect(f"{self._path.absolute().as_uri()}?mode=ro") as database:
            row: tuple[str, ...] | None = database.execute(query, values).fetchone()
            return row

    @contextmanager
    def _connect(self, path: Path | str) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(path, uri=isinstance(path, str))) as database:
            yield database
