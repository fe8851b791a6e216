"""Searching: words and beginnings of words, the best match first, page by page."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal

from msgspec import Struct

from clew.index.entities import run_row
from clew.index.reader import IndexReader
from clew.query.documents import run_entry
from clew.query.graph.nodes import Node
from clew.query.moments import moment
from clew.query.search.kept import EntityKind, SearchFile

HitKind = Literal["dataset", "job", "run"]
MOST_HITS: Final = 10_000
_MOST_WORDS = 16
_MOST_LIKE = 5_000
_WORD = re.compile(r"[^\W_]+")
_RUN_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# A name says more than a column, and a column more than a word somewhere in the code.
_WEIGHTS = "10.0, 2.0, 6.0, 4.0, 8.0, 1.0, 1.0"
_HITS = f"""select entries.*, snippet(texts, -1, '', '', '…', 12) as snippet
from texts join entries on entries.id = texts.rowid
where texts match ?1 and entries.kind = coalesce(?2, entries.kind)
and entries.namespace = coalesce(?3, entries.namespace)
order by entries.name = ?4 desc, bm25(texts, {_WEIGHTS}), kind, entries.namespace, entries.name limit ?5 offset ?6"""  # noqa: S608
_COUNT = """select count(*) from (select 1 from texts join entries on entries.id = texts.rowid
where texts match ?1 and entries.kind = coalesce(?2, entries.kind)
and entries.namespace = coalesce(?3, entries.namespace) limit ?4)"""
_LIKE = "select term from words where term >= ?1 and term < ?2 limit ?3"


class Hit(Struct, frozen=True, rename="camel"):
    """Something that was found, and where in its texts."""

    kind: HitKind
    id: str
    namespace: str
    name: str
    snippet: str
    updated_at: datetime | None


class Hits(Struct, frozen=True, rename="camel"):
    """A page of what was found. `is_complete`: all of the index was searched; `did_you_mean` if nothing was found."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...] = ()


def search(
    file: SearchFile,
    index: IndexReader,
    text: str,
    *,
    kind: EntityKind | None = None,
    namespace: str | None = None,
    limit: int = 20,
    offset: int = 0,
) -> Hits:
    """All jobs and datasets of which every word of a text is said; a run by its id."""
    words = words_in(text)
    run = _run(index, text.strip()) if kind is None and offset == 0 else ()
    if not words:
        return Hits(run, len(run), is_complete=True)
    query = " ".join(f'"{word}"*' for word in words)
    with file.connected(index, words) as (database, is_complete):
        database.row_factory = sqlite3.Row
        found = database.execute(_HITS, (query, kind, namespace, text.strip(), limit, offset)).fetchall()
        total = database.execute(_COUNT, (query, kind, namespace, MOST_HITS)).fetchone()[0]
        like = () if total or run else _did_you_mean(database, words)
    return Hits((*run, *map(_hit, found)), total + len(run), is_complete, like)


def words_in(text: str) -> list[str]:
    """The words of a text that are looked for."""
    return _WORD.findall(text)[:_MOST_WORDS]


def _hit(row: sqlite3.Row) -> Hit:
    kind: EntityKind = "job" if row["kind"] == "job" else "dataset"
    namespace, name = row["namespace"], row["name"]
    updated_at = moment(row["updated_at"])
    return Hit(kind, Node(kind, namespace, name).id, namespace, name, row["snippet"], updated_at)


def _run(index: IndexReader, text: str) -> tuple[Hit, ...]:
    row = run_row(index, text) if _RUN_ID.fullmatch(text) else None
    if row is None:
        return ()
    run = run_entry(row)
    namespace, name = ("", "") if run.job is None else (run.job.namespace, run.job.name)
    return (Hit("run", f"run:{run.id}", namespace, name, run.state, run.ended_at or run.started_at),)


def _did_you_mean(database: sqlite3.Connection, words: list[str]) -> tuple[str, ...]:
    """Words that are there, like those that are not."""
    found: dict[str, None] = {}
    for word in words:
        word = word.lower()  # noqa: PLW2901
        near = (word[0], chr(min(ord(word[0]) + 1, 0x10FFFF)), _MOST_LIKE)
        known = [row[0] for row in database.execute(_LIKE, near)]
        found.update(dict.fromkeys(get_close_matches(word, known, n=3, cutoff=0.7)))
    return tuple(found)
