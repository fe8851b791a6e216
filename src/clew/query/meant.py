"""Resolve user input (a full name, a unique suffix or an id) to a dataset, column, job or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from clew.index.entities import find_run
from clew.index.reader import IndexReader
from clew.query.graph.nodes import Node, NodeKind
from clew.query.model import DatasetName
from clew.query.names import (
    COLUMN_FORM,
    AmbiguousNameError,
    UnknownColumnError,
    UnknownNameError,
    find_column,
    match_datasets,
)
from clew.query.node_ids import DATASET, FIELD, JOB, RUN, resolve_field_id, resolve_node_id

NameKind = Literal["dataset", "column", "job", "run"]
_RUN_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ID = re.compile(rf"(?:{DATASET}|{FIELD}|{JOB}|{RUN}):.")


_MAX_SUGGESTIONS = 1000


class ResolvedName(Struct, frozen=True):
    """Id of the resolved node, and the column if the name is that of a column."""

    kind: NameKind
    id: str
    column: str | None = None


def resolve_name(index: IndexReader, text: str) -> ResolvedName:
    """Resolve a name: ids and sessions first, then datasets, jobs and columns."""
    if _ID.match(text):
        return _resolve_id(index, text)
    if _RUN_ID.fullmatch(text) and find_run(index, text) is not None:
        return ResolvedName("run", f"{RUN}:{text}")
    session = index.session_run(text)
    if session is not None:
        return ResolvedName("run", f"{RUN}:{session['run_uuid']}")
    return _resolve_by_name(index, text)


def resolve_run(index: IndexReader, text: str) -> str:
    """Resolve a run id or a notebook session id to a run id."""
    run = text.removeprefix(f"{RUN}:")
    if find_run(index, run) is not None:
        return run
    session = index.session_run(run)
    if session is None:
        session_ids = [row["session_id"] for row in index.sessions(1000)]
        if not session_ids:
            raise UnknownNameError(f"There is no run {text!r}.", hint="`clew runs` lists the runs.")
        raise UnknownNameError.of("run or session", text, session_ids)
    return str(session["run_uuid"])


def resolve_column(index: IndexReader, text: str) -> tuple[DatasetName, str]:
    """Resolve a column by id or by DATASET.COLUMN."""
    if _ID.match(text):
        column = resolve_field_id(index, text)
        if column.column is not None:
            return DatasetName(column.namespace, column.dataset), column.column
    return find_column(index, text)


def _resolve_id(index: IndexReader, text: str) -> ResolvedName:
    kind = text.partition(":")[0]
    if kind == RUN:
        return ResolvedName("run", f"{RUN}:{resolve_run(index, text)}")
    if kind == FIELD:
        column = resolve_field_id(index, text)
        return ResolvedName("column", Node("dataset", column.namespace, column.dataset).id, column.column)
    node = resolve_node_id(index, text)
    return ResolvedName(node.kind, node.id)


def _resolve_by_name(index: IndexReader, text: str) -> ResolvedName:
    candidates: dict[NodeKind, Sequence[DatasetName | Node]] = {
        "dataset": match_datasets(index, text),
        "job": _match_jobs(index, text),
    }
    for kind, matches in candidates.items():
        if len(matches) > 1:
            raise AmbiguousNameError.among(kind, text, [f"{match.namespace}:{match.name}" for match in matches])
        if matches:
            return ResolvedName(kind, Node(kind, matches[0].namespace, matches[0].name).id)
    if "." not in text and ":" not in text:
        raise UnknownNameError.of("dataset, job or run", text, _existing_names(index), COLUMN_FORM)
    try:
        owner, column = find_column(index, text)
    except UnknownNameError as error:
        if isinstance(error, AmbiguousNameError | UnknownColumnError):
            raise
        raise UnknownNameError.of("dataset, column, job or run", text, _existing_names(index)) from error
    return ResolvedName("column", Node("dataset", owner.namespace, owner.name).id, column)


def _existing_names(index: IndexReader) -> list[str]:
    sessions = [row["session_id"] for row in index.sessions(_MAX_SUGGESTIONS)]
    names = [*index.recent_datasets(_MAX_SUGGESTIONS), *index.recent_jobs(_MAX_SUGGESTIONS)]
    return list(dict.fromkeys([*sessions, *(name.rstrip("/").rsplit("/", 1)[-1] for _, name in names)]))


def _match_jobs(index: IndexReader, text: str) -> list[Node]:
    rows = index.query(
        "select namespace, name from jobs where name = ?1 or namespace || ':' || name = ?1 limit 100", text
    )
    return [Node("job", row["namespace"], row["name"]) for row in rows]
