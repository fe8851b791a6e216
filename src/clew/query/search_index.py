"""Search index: an FTS5 file beside the query index, and its documents."""

from __future__ import annotations

import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from clew.errors import ClewError
from clew.events.facets import ASSERTIONS_FACET
from clew.index.queries.connection import IndexVersion
from clew.index.queries.reader import ENTITY_FINGERPRINTS, IndexReader
from clew.query.entities.model import AssertionResult
from clew.query.quality import load_dataset_assertions

_MAX_DEPTH = 12
# Longer facet values are not search terms.
_MAX_VALUE_LENGTH = 200
_MAX_CHARACTERS = 20_000
# Facets with their own column, or with texts that are indexed elsewhere.
_SEPARATE_FACETS = frozenset(
    {"schema", "columnLineage", "lineage", "documentation", "tags", "sql", "sourceCode", "symlinks", ASSERTIONS_FACET}
)
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


class SearchDocument(Struct, frozen=True, array_like=True):
    """Columns of the full-text table, in order."""

    name: str
    namespace: str
    columns: str
    description: str
    tags: str
    code: str
    facets: str


def build_search_document(
    namespace: str, name: str, facets: Mapping[str, bytes], assertions: Iterable[AssertionResult] = ()
) -> SearchDocument:
    """Build the search document of a job or dataset; failed tests are found by the word `failed`."""
    values = {facet: _decode(body) for facet, body in facets.items()}
    fields = list(_fields(values.get("schema")))
    descriptions = [_text(values.get("documentation"), "description"), *(text for _, text in fields)]
    code = (_text(values.get("sql"), "query"), _text(values.get("sourceCode"), "sourceCode"))
    others = (
        text
        for facet, value in values.items()
        if facet not in _SEPARATE_FACETS
        for text in (facet, *(text for _, text in facet_texts(value) if len(text) <= _MAX_VALUE_LENGTH))
    )
    tests = (
        text
        for result in assertions
        for text in (result.assertion, result.name, result.column, "failed" if result.success is False else None)
    )
    return SearchDocument(
        name=split_identifier(name),
        namespace=split_identifier(namespace),
        columns=_join(split_identifier(column) for column, _ in fields),
        description=_join(descriptions),
        tags=_join(_tags(values.get("tags"))),
        code=_join(code),
        facets=_join(chain(tests, others)),
    )


def split_identifier(name: str) -> str:
    """Append the words of a camelCase name to it, so that `orderTotals` matches `totals`."""
    words = _WORD_BOUNDARY.sub(" ", name)
    return name if words == name else f"{name} {words}"


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _text(value: Any, key: str) -> str:
    text = value.get(key) if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


def _fields(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of columns, including nested ones."""
    fields = value.get("fields") if isinstance(value, dict) and depth < _MAX_DEPTH else None
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield _text(field, "name"), _text(field, "description")
            yield from _fields(field, depth + 1)


def _tags(value: Any) -> Iterator[str]:
    tags = value.get("tags") if isinstance(value, dict) else None
    for tag in tags if isinstance(tags, list) else ():
        yield from (_text(tag, key) for key in ("key", "value", "field"))


def facet_texts(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield path and text of each string of a facet.

    OpenLineage: keys that start with an underscore describe the facet, not the entity.
    """
    if isinstance(value, str):
        yield path, value
    elif depth < _MAX_DEPTH:
        if isinstance(value, dict):
            for key, item in value.items():
                if not key.startswith("_"):
                    yield from facet_texts(item, f"{path}.{key}", depth + 1)
        elif isinstance(value, list):
            for item in value:
                yield from facet_texts(item, path, depth + 1)


def _join(texts: Any) -> str:
    parts: list[str] = []
    remaining = _MAX_CHARACTERS
    for text in texts:
        if text and remaining > 0:
            parts.append(text[:remaining])
            remaining -= len(text) + 1
    return " ".join(parts)


# Files with another format number are rebuilt.
_FORMAT: Final = "4"
# Entities per transaction.
_BATCH_SIZE = 250
_MAX_SYNC_REFRESH_SECONDS = 0.5
# Damage of a file is reported in many ways, such as a missing column.
_DAMAGE_CODES: Final = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
T = TypeVar("T")
_SCHEMA = f"""
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists entities (
    id integer primary key, kind text not null, namespace text not null, name text not null,
    fingerprint integer not null, updated_at integer, content_hash integer not null, unique (kind, namespace, name));
create virtual table if not exists documents using fts5 ({", ".join(SearchDocument.__struct_fields__)},
    tokenize = "unicode61 remove_diacritics 2", prefix = '2 3');
create virtual table if not exists terms using fts5vocab (documents, 'row');
insert or ignore into meta values ('format', '{_FORMAT}');
"""  # noqa: S608

EntityKind = Literal["dataset", "job"]
_Entity = tuple[EntityKind, str, str, int, int | None]
_FINGERPRINTS = "select kind, namespace, name, fingerprint from entities"
# Comparing inside SQLite, for an index in a file, is twice as fast.
_CHANGED = f"""select * from ({ENTITY_FINGERPRINTS}) indexed_entities where not exists (
    select 1 from entities where entities.kind = indexed_entities.kind
    and entities.namespace = indexed_entities.namespace and entities.name = indexed_entities.name
    and entities.fingerprint = indexed_entities.fingerprint)"""  # noqa: S608
_CONTENT_HASH = "select content_hash from entities where kind = ? and namespace = ? and name = ?"
_UPSERT_ENTITY = """insert into entities values (null, ?, ?, ?, ?, ?, ?) on conflict (kind, namespace, name) do update
set fingerprint = excluded.fingerprint, updated_at = excluded.updated_at, content_hash = excluded.content_hash
returning id"""


class SearchIndex:
    """Full-text index of all jobs and datasets.

    A one-shot process refreshes a single batch, entities with matching names first, and starts no background refresh.
    """

    def __init__(
        self,
        path: Path,
        open_index: Callable[[], IndexReader],
        index_file: Path | None = None,
        *,
        is_one_shot: bool = False,
    ) -> None:
        self._path, self._open_index, self._index_file, self._is_one_shot = path, open_index, index_file, is_one_shot
        self._private_dir: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._refresh_lock = threading.Lock()
        self._version: IndexVersion | None = None
        # CPU time of the last refresh.
        self._refresh_seconds = 0.0
        self._is_refreshing = False

    def close(self) -> None:
        """Remove the private copy, if there is one."""
        with self._lock:
            if self._private_dir is not None:
                self._private_dir.cleanup()
                self._private_dir = None

    def query(self, index: IndexReader, words: Sequence[str], run: Callable[[sqlite3.Connection], T]) -> tuple[T, bool]:
        """Run a query on the refreshed file; return whether the file is complete. A damaged file is created again."""
        try:
            return self._query(index, words, run)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _DAMAGE_CODES:
                raise
        with self._refresh_lock:
            _remove(self._path)
            self._version = None
        return self._query(index, words, run)

    def _query(
        self, index: IndexReader, words: Sequence[str], run: Callable[[sqlite3.Connection], T]
    ) -> tuple[T, bool]:
        if not self._path.exists():
            # The file was deleted meanwhile.
            self._version = None
        # A long refresh continues in the background.
        is_complete = self._version == index.version()
        if not is_complete and self._refresh_seconds < _MAX_SYNC_REFRESH_SECONDS:
            timeout = 0.0 if self._is_one_shot else _MAX_SYNC_REFRESH_SECONDS
            is_complete = self._refresh(time.monotonic() + timeout, words)
        if not is_complete and not self._is_one_shot:
            self._refresh_in_background()
        with closing(self._connection()) as connection:
            return run(connection), is_complete

    def refresh(self) -> None:
        """Refresh the file completely."""
        self._refresh(None)

    def _refresh_in_background(self) -> None:
        with self._lock:
            if self._is_refreshing:
                return
            self._is_refreshing = True
        threading.Thread(target=self._run_background_refresh, name="clew-search", daemon=True).start()

    def _run_background_refresh(self) -> None:
        try:
            # The next query reports errors of the file or the index.
            with suppress(ClewError, sqlite3.Error):
                self._refresh(None)
        finally:
            self._is_refreshing = False

    def _refresh(self, deadline: float | None, words: Sequence[str] = ()) -> bool:
        """Index changed entities in batches until a deadline; return whether all were indexed."""
        if not self._refresh_lock.acquire(blocking=deadline is None):
            return False
        started = time.thread_time()
        try:
            return self._index_changes(deadline, words)
        finally:
            self._refresh_seconds = time.thread_time() - started
            self._refresh_lock.release()

    def _index_changes(self, deadline: float | None, words: Sequence[str]) -> bool:
        with self._open_index() as index:
            version = index.version()
            if self._version == version:
                return True
            connection = self._connection()
            try:
                is_complete = _read_version(connection) == version or self._write_changes(
                    connection, index, version, deadline, words
                )
            except sqlite3.OperationalError as error:
                # Another process is refreshing the file.
                if "locked" not in str(error):
                    raise
                is_complete = False
            finally:
                connection.close()
            if is_complete:
                self._version = version
        return is_complete

    def _write_changes(
        self,
        connection: sqlite3.Connection,
        index: IndexReader,
        version: IndexVersion,
        deadline: float | None,
        words: Sequence[str],
    ) -> bool:
        if connection.execute("select value from meta where key = 'identity'").fetchone() != (version.identity,):
            connection.executescript("delete from entities; delete from documents;")
            connection.execute("insert or replace into meta values ('identity', ?)", (version.identity,))
        changed = self._changed(connection, index, words)
        for start in range(0, len(changed), _BATCH_SIZE):
            if start and deadline is not None and time.monotonic() > deadline:
                return False
            connection.execute("begin immediate")
            try:
                for entity in changed[start : start + _BATCH_SIZE]:
                    _write_entity(connection, index, *entity)
                connection.execute("commit")
            except BaseException:
                connection.execute("rollback")
                raise
        _write_version(connection, version)
        return True

    def _changed(self, connection: sqlite3.Connection, index: IndexReader, words: Sequence[str]) -> list[_Entity]:
        """Return the jobs and datasets with another fingerprint, those with all `words` in their names first."""
        changed: list[_Entity]
        if self._index_file is None:
            fingerprints = {row[:3]: row[3] for row in connection.execute(_FINGERPRINTS)}
            changed = [entity for entity in index.entity_fingerprints() if fingerprints.get(entity[:3]) != entity[3]]
        else:
            connection.execute("attach ? as indexed", (f"{self._index_file.absolute().as_uri()}?mode=ro",))
            changed = connection.execute(_CHANGED).fetchall()
            connection.execute("detach indexed")
        matching = changed
        for word in map(str.lower, words):
            matching = [entity for entity in matching if word in entity[2].lower()]
        matching_set = set(matching)
        return [*matching, *(entity for entity in changed if entity not in matching_set)]

    def _connection(self) -> sqlite3.Connection:
        try:
            return _connect(self._path)
        except sqlite3.OperationalError:
            # The directory is read-only: use a private file.
            self._private_dir = self._private_dir or tempfile.TemporaryDirectory(prefix="clew-search-")
            self._path = Path(self._private_dir.name) / "search.sqlite"
            return _connect(self._path)
        except sqlite3.DatabaseError:
            # Not a search index of this format: rebuild it.
            _remove(self._path)
            return _connect(self._path)


def _connect(path: Path) -> sqlite3.Connection:
    # For the owner only, whatever the umask of the command. SQLite reports a folder that is not writable.
    with suppress(OSError):
        path.touch(mode=0o600)
    connection = sqlite3.connect(
        path.absolute().as_uri(), uri=True, isolation_level=None, timeout=1.0, check_same_thread=False
    )
    try:
        has_schema = connection.execute("select 1 from sqlite_master where name = 'meta'").fetchone()
        if has_schema and connection.execute("select value from meta where key = 'format'").fetchone() != (_FORMAT,):
            raise sqlite3.DatabaseError("unsupported format")  # noqa: TRY301
        if not has_schema:
            connection.execute("pragma journal_mode = wal")
            connection.executescript(_SCHEMA)
        # The file can be rebuilt, so no write waits for the disk.
        connection.execute("pragma synchronous = off")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _read_version(connection: sqlite3.Connection) -> IndexVersion | None:
    """Return the index version that the file covers completely."""
    row = connection.execute("select value from meta where key = 'index_version'").fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=IndexVersion)


def _write_version(connection: sqlite3.Connection, version: IndexVersion) -> None:
    value = msgspec.json.encode(version).decode()
    connection.execute("insert or replace into meta values ('index_version', ?)", (value,))


def _write_entity(
    connection: sqlite3.Connection,
    index: IndexReader,
    kind: EntityKind,
    namespace: str,
    name: str,
    fingerprint: int,
    updated_at: int | None,
) -> None:
    assertions = load_dataset_assertions(index, [(namespace, name)])[0] if kind == "dataset" else ()
    document = build_search_document(namespace, name, _facets(index, kind, namespace, name), assertions)
    values = [getattr(document, column) for column in SearchDocument.__struct_fields__]
    content_hash = crc32(msgspec.msgpack.encode(document))
    key = kind, namespace, name
    known = connection.execute(_CONTENT_HASH, key).fetchone()
    (number,) = connection.execute(_UPSERT_ENTITY, (*key, fingerprint, updated_at, content_hash)).fetchone()
    # Most events repeat what is indexed.
    if known == (content_hash,):
        return
    connection.execute("delete from documents where rowid = ?", (number,))
    placeholders = ", ".join("?" * (len(values) + 1))
    columns = ", ".join(("rowid", *SearchDocument.__struct_fields__))
    connection.execute(f"insert into documents ({columns}) values ({placeholders})", (number, *values))  # noqa: S608


def _facets(index: IndexReader, kind: EntityKind, namespace: str, name: str) -> dict[str, bytes]:
    if kind == "job":
        return index.facets("job", namespace, name)
    _, facets = index.dataset_facets_of([(namespace, name)]).get((namespace, name), (None, {}))
    return {facet: bytes(body) for facet, body in facets.items()}
