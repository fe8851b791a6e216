"""Full-text search by words and prefixes, best match first, paged."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal

from msgspec import Struct

from clew.index.queries.reader import IndexReader
from clew.query.graph.nodes import Node
from clew.query.model import from_epoch_micros
from clew.query.names import RUN_ID
from clew.query.search_index import EntityKind, SearchIndex

HitKind = Literal["dataset", "job", "run"]
MAX_HITS: Final = 10_000
_MAX_WORDS = 16
_MAX_CANDIDATES = 5_000
_WORD = re.compile(r"[^\W_]+")
# bm25 weights of the columns of SearchDocument: names over tags, columns, descriptions, code.
_WEIGHTS = "10.0, 2.0, 6.0, 4.0, 8.0, 1.0, 1.0"
_HITS = f"""select entities.*, snippet(documents, -1, '', '', '…', 12) as snippet
from documents join entities on entities.id = documents.rowid
where documents match ?1 and entities.kind = coalesce(?2, entities.kind)
and entities.namespace = coalesce(?3, entities.namespace)
order by entities.name = ?4 desc, bm25(documents, {_WEIGHTS}), kind, entities.namespace, entities.name
limit ?5 offset ?6"""  # noqa: S608
_COUNT = """select count(*) from (select 1 from documents join entities on entities.id = documents.rowid
where documents match ?1 and entities.kind = coalesce(?2, entities.kind)
and entities.namespace = coalesce(?3, entities.namespace) limit ?4)"""
_TERMS_IN_RANGE = "select term from terms where term >= ?1 and term < ?2 limit ?3"


class Hit(Struct, frozen=True, rename="camel"):
    """A job, dataset or run that matches, with the matching text."""

    kind: HitKind
    id: str
    namespace: str
    name: str
    snippet: str
    updated_at: datetime | None


class Hits(Struct, frozen=True, rename="camel"):
    """A page of hits. `is_complete`: the search index was up to date; `did_you_mean`: suggestions without hits."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...] = ()


def search_entities(
    search_index: SearchIndex,
    index: IndexReader,
    text: str,
    *,
    kind: EntityKind | None = None,
    namespace: str | None = None,
    limit: int = 20,
    offset: int = 0,
) -> Hits:
    """Search jobs and datasets that contain all words of a text, and a run by its id."""
    words = split_words(text)
    run = _run(index, text.strip()) if kind is None and offset == 0 else ()
    if not words:
        return Hits(run, len(run), is_complete=True)
    query = " ".join(f'"{word}"*' for word in words)

    def find(database: sqlite3.Connection) -> tuple[list[sqlite3.Row], int, tuple[str, ...]]:
        database.row_factory = sqlite3.Row
        rows = database.execute(_HITS, (query, kind, namespace, text.strip(), limit, offset)).fetchall()
        total = database.execute(_COUNT, (query, kind, namespace, MAX_HITS)).fetchone()[0]
        return rows, total, () if total or run else _did_you_mean(database, words)

    (rows, total, suggestions), is_complete = search_index.query(index, words, find)
    return Hits((*run, *map(_hit, rows)), total + len(run), is_complete, suggestions)


def split_words(text: str) -> list[str]:
    """Split a text into at most 16 words."""
    return _WORD.findall(text)[:_MAX_WORDS]


def _hit(row: sqlite3.Row) -> Hit:
    kind: EntityKind = "job" if row["kind"] == "job" else "dataset"
    namespace, name = row["namespace"], row["name"]
    updated_at = from_epoch_micros(row["updated_at"])
    return Hit(kind, Node(kind, namespace, name).id, namespace, name, row["snippet"], updated_at)


def _run(index: IndexReader, text: str) -> tuple[Hit, ...]:
    run = index.run(text) if RUN_ID.fullmatch(text) else None
    if run is None:
        return ()
    updated_at = from_epoch_micros(run.started_at if run.ended_at is None else run.ended_at)
    return (Hit("run", f"run:{run.run_uuid}", run.job_namespace or "", run.job_name or "", run.state, updated_at),)


def _did_you_mean(database: sqlite3.Connection, words: list[str]) -> tuple[str, ...]:
    """Suggest indexed words similar to the given ones."""
    suggestions: dict[str, None] = {}
    for word in words:
        word = word.lower()  # noqa: PLW2901
        term_range = (word[0], chr(min(ord(word[0]) + 1, 0x10FFFF)), _MAX_CANDIDATES)
        terms = [row[0] for row in database.execute(_TERMS_IN_RANGE, term_range)]
        suggestions.update(dict.fromkeys(get_close_matches(word, terms, n=3, cutoff=0.7)))
    return tuple(suggestions)
