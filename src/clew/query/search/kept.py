"""A file beside the index in which words are found; brought up to date by whoever asks, off the way of the events."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal
from zlib import crc32

import msgspec

from clew.errors import ClewError
from clew.index.reader import STAMPS, IndexReader, Progress
from clew.query.search.texts import Texts, texts_of

# Another number, and the file is made anew.
_FORMAT: Final = "2"
_AT_ONCE = 250
_PATIENCE_SECONDS = 0.5
_SCHEMA = f"""
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists entries (
    id integer primary key, kind text not null, namespace text not null, name text not null,
    stamp integer not null, updated_at integer, content integer not null, unique (kind, namespace, name));
create virtual table if not exists texts using fts5 ({", ".join(Texts.__struct_fields__)},
    tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
create virtual table if not exists words using fts5vocab (texts, 'row');
insert or ignore into meta values ('format', '{_FORMAT}');
"""  # noqa: S608

EntityKind = Literal["dataset", "job"]
_Entity = tuple[EntityKind, str, str, int, int | None]
_KNOWN = "select kind, namespace, name, stamp from entries"
# Of an index in a file, the rows are compared where they are, which takes half of the time.
_CHANGED = f"""select * from ({STAMPS}) found where not exists (
    select 1 from entries where entries.kind = found.kind and entries.namespace = found.namespace
    and entries.name = found.name and entries.stamp = found.stamp)"""  # noqa: S608


class SearchFile:
    """The words of all jobs and datasets of an index.

    Who is brief waits for one piece only, and does nothing aside: of what was touched since, what has all the
    words in its name comes first.
    """

    def __init__(
        self,
        path: Path,
        open_index: Callable[[], IndexReader],
        index_file: Path | None = None,
        *,
        is_brief: bool = False,
    ) -> None:
        self._path, self._open_index, self._index_file, self._is_brief = path, open_index, index_file, is_brief
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._progress: Progress | None = None
        # What it cost last, in CPU, to see what has changed and to take that in.
        self._seconds = 0.0
        self._is_busy = False

    def close(self) -> None:
        """Remove what was only for this process."""
        with self._lock:
            if self._own is not None:
                self._own.cleanup()
                self._own = None

    @contextmanager
    def connected(self, index: IndexReader, words: Sequence[str] = ()) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """The file, and whether all of the index is in it: what takes long is done aside, and found a little later."""
        is_whole = self._progress == index.progress()
        if not is_whole and self._seconds < _PATIENCE_SECONDS:
            patience = 0.0 if self._is_brief else _PATIENCE_SECONDS
            is_whole = self._refreshed(time.monotonic() + patience, words)
        if not is_whole and not self._is_brief:
            self._refresh_aside()
        connection = self._connection()
        try:
            yield connection, is_whole
        finally:
            connection.close()

    def refresh(self) -> None:
        """Bring the file up to date, however long it takes."""
        self._refreshed(None)

    def _refresh_aside(self) -> None:
        with self._lock:
            if self._is_busy:
                return
            self._is_busy = True
        threading.Thread(target=self._refresh_in_thread, name="clew-search", daemon=True).start()

    def _refresh_in_thread(self) -> None:
        try:
            # Whatever is wrong with a file or an index, whoever asks next is told.
            with suppress(ClewError, sqlite3.Error):
                self._refreshed(None)
        finally:
            self._is_busy = False

    def _refreshed(self, until: float | None, words: Sequence[str] = ()) -> bool:
        """Take in what has changed, in pieces, for as long as there is time."""
        if not self._refreshing.acquire(blocking=until is None):
            return False
        began = time.thread_time()
        try:
            return self._taken_in(until, words)
        finally:
            self._seconds = time.thread_time() - began
            self._refreshing.release()

    def _taken_in(self, until: float | None, words: Sequence[str]) -> bool:
        with self._open_index() as index:
            progress = index.progress()
            if self._progress == progress:
                return True
            connection = self._connection()
            try:
                is_whole = _noted(connection) == progress or self._take_in(connection, index, progress, until, words)
            except sqlite3.OperationalError as fault:
                # Another process is at it already.
                if "locked" not in str(fault):
                    raise
                is_whole = False
            finally:
                connection.close()
            if is_whole:
                self._progress = progress
        return is_whole

    def _take_in(
        self,
        connection: sqlite3.Connection,
        index: IndexReader,
        progress: Progress,
        until: float | None,
        words: Sequence[str],
    ) -> bool:
        if connection.execute("select value from meta where key = 'identity'").fetchone() != (progress.identity,):
            connection.executescript("delete from entries; delete from texts;")
            connection.execute("insert or replace into meta values ('identity', ?)", (progress.identity,))
        changed = self._changed(connection, index, words)
        for start in range(0, len(changed), _AT_ONCE):
            if start and until is not None and time.monotonic() > until:
                return False
            connection.execute("begin immediate")
            try:
                for entity in changed[start : start + _AT_ONCE]:
                    _put(connection, index, *entity)
                connection.execute("commit")
            except BaseException:
                connection.execute("rollback")
                raise
        _note(connection, progress)
        return True

    def _changed(self, connection: sqlite3.Connection, index: IndexReader, words: Sequence[str]) -> list[_Entity]:
        """Jobs and datasets that events have touched since, or that were taken in late; likely ones first."""
        changed: list[_Entity]
        if self._index_file is None:
            known = {row[:3]: row[3] for row in connection.execute(_KNOWN)}
            changed = [entity for entity in index.stamps() if known.get(entity[:3]) != entity[3]]
        else:
            connection.execute("attach ? as indexed", (f"{self._index_file.absolute().as_uri()}?mode=ro",))
            changed = connection.execute(_CHANGED).fetchall()
            connection.execute("detach indexed")
        likely = changed
        for word in map(str.lower, words):
            likely = [entity for entity in likely if word in entity[2].lower()]
        first = set(likely)
        return [*likely, *(entity for entity in changed if entity not in first)]

    def _connection(self) -> sqlite3.Connection:
        try:
            return _opened(self._path)
        except sqlite3.OperationalError:
            # Whoever may only read has a file of its own.
            self._own = self._own or tempfile.TemporaryDirectory(prefix="clew-search-")
            self._path = Path(self._own.name) / "search.sqlite"
            return _opened(self._path)
        except sqlite3.DatabaseError:
            # Whatever it is, it is no such file; it can be made anew at any time.
            _remove(self._path)
            return _opened(self._path)


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path.absolute().as_uri(), uri=True, isolation_level=None, timeout=1.0, check_same_thread=False
    )
    try:
        known = connection.execute("select 1 from sqlite_master where name = 'meta'").fetchone()
        if known and connection.execute("select value from meta where key = 'format'").fetchone() != (_FORMAT,):
            raise sqlite3.DatabaseError("another format")  # noqa: TRY301
        if not known:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(_SCHEMA)
        # Made anew if it is lost: nothing waits for the disk.
        connection.execute("pragma synchronous = off")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _noted(connection: sqlite3.Connection) -> Progress | None:
    """The state of the index that the file holds whole."""
    row = connection.execute("select value from meta where key = 'progress'").fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=Progress)


def _note(connection: sqlite3.Connection, progress: Progress) -> None:
    value = msgspec.json.encode(progress).decode()
    connection.execute("insert or replace into meta values ('progress', ?)", (value,))


def _put(
    connection: sqlite3.Connection,
    index: IndexReader,
    kind: EntityKind,
    namespace: str,
    name: str,
    stamp: int,
    at: int | None,
) -> None:
    texts = texts_of(namespace, name, _facets(index, kind, namespace, name))
    values = [getattr(texts, column) for column in Texts.__struct_fields__]
    content = crc32(msgspec.msgpack.encode(texts))
    key = kind, namespace, name
    found = connection.execute(
        "select id, content from entries where kind = ? and namespace = ? and name = ?", key
    ).fetchone()
    if found is None:
        number = connection.execute(
            "insert into entries values (null, ?, ?, ?, ?, ?, ?)", (*key, stamp, at, content)
        ).lastrowid
    else:
        number = found[0]
        connection.execute(
            "update entries set stamp = ?, updated_at = ?, content = ? where id = ?", (stamp, at, content, number)
        )
        # Most often an event says again what was said before.
        if found[1] == content:
            return
        connection.execute("delete from texts where rowid = ?", (number,))
    marks = ", ".join("?" * (len(values) + 1))
    columns = ", ".join(("rowid", *Texts.__struct_fields__))
    connection.execute(f"insert into texts ({columns}) values ({marks})", (number, *values))  # noqa: S608


def _facets(index: IndexReader, kind: EntityKind, namespace: str, name: str) -> dict[str, bytes]:
    if kind == "job":
        return index.facets("job", namespace, name)
    versions = index.described_versions(namespace, name)
    return index.facets("dataset", namespace, name, versions[0]) if versions else {}
