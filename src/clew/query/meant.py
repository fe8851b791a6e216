"""What a person means by a name: a dataset, a column, a job or a run, named whole, by the end of its name, or by id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from clew.index.entities import run_row
from clew.index.reader import IndexReader
from clew.query.graph.nodes import Node, NodeKind
from clew.query.model import Dataset
from clew.query.names import (
    COLUMN_FORM,
    AmbiguousNameError,
    UnknownColumnError,
    UnknownNameError,
    datasets_called,
    find_column,
)
from clew.query.node_ids import DATASET, FIELD, JOB, RUN, find_field, find_node

MeantKind = Literal["dataset", "column", "job", "run"]
_RUN_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ID = re.compile(rf"(?:{DATASET}|{FIELD}|{JOB}|{RUN}):.")


_MOST_KNOWN = 1000


class Meant(Struct, frozen=True):
    """A node by its id, without the column; and the column, if one is meant."""

    kind: MeantKind
    id: str
    column: str | None = None


def meant(index: IndexReader, text: str) -> Meant:
    """What a text names; columns before datasets, datasets before jobs."""
    if _ID.match(text):
        return _by_id(index, text)
    if _RUN_ID.fullmatch(text) and run_row(index, text) is not None:
        return Meant("run", f"{RUN}:{text}")
    session = index.session_run(text)
    if session is not None:
        return Meant("run", f"{RUN}:{session['run_uuid']}")
    return _by_name(index, text)


def meant_run(index: IndexReader, text: str) -> str:
    """The id of the run that a text names: its own, or that of a notebook's session."""
    run = text.removeprefix(f"{RUN}:")
    if run_row(index, run) is not None:
        return run
    session = index.session_run(run)
    if session is None:
        known = [row["session_id"] for row in index.sessions(1000)]
        if not known:
            raise UnknownNameError(f"There is no run {text!r}.", hint="`clew runs` lists the runs that there are.")
        raise UnknownNameError.of("run or session", text, known)
    return str(session["run_uuid"])


def meant_column(index: IndexReader, text: str) -> tuple[Dataset, str]:
    """The column that a text names."""
    if _ID.match(text):
        column = find_field(index, text)
        if column.column is not None:
            return Dataset(column.namespace, column.dataset), column.column
    return find_column(index, text)


def _by_id(index: IndexReader, text: str) -> Meant:
    kind = text.partition(":")[0]
    if kind == RUN:
        return Meant("run", f"{RUN}:{meant_run(index, text)}")
    if kind == FIELD:
        column = find_field(index, text)
        return Meant("column", Node("dataset", column.namespace, column.dataset).id, column.column)
    node = find_node(index, text)
    return Meant(node.kind, node.id)


def _by_name(index: IndexReader, text: str) -> Meant:
    candidates: dict[NodeKind, Sequence[Dataset | Node]] = {
        "dataset": datasets_called(index, text),
        "job": _jobs(index, text),
    }
    for kind, named in candidates.items():
        if len(named) > 1:
            raise AmbiguousNameError.among(kind, text, [f"{one.namespace}:{one.name}" for one in named])
        if named:
            return Meant(kind, Node(kind, named[0].namespace, named[0].name).id)
    if "." not in text and ":" not in text:
        raise UnknownNameError.of("dataset, job or run", text, _known(index), COLUMN_FORM)
    try:
        owner, column = find_column(index, text)
    except UnknownNameError as fault:
        if isinstance(fault, AmbiguousNameError | UnknownColumnError):
            raise
        raise UnknownNameError.of("dataset, column, job or run", text, _known(index)) from fault
    return Meant("column", Node("dataset", owner.namespace, owner.name).id, column)


def _known(index: IndexReader) -> list[str]:
    sessions = [row["session_id"] for row in index.sessions(_MOST_KNOWN)]
    named = [*index.some_datasets(_MOST_KNOWN), *index.some_jobs(_MOST_KNOWN)]
    return list(dict.fromkeys([*sessions, *(name.rstrip("/").rsplit("/", 1)[-1] for _, name in named)]))


def _jobs(index: IndexReader, text: str) -> list[Node]:
    rows = index.ask(
        "select namespace, name from jobs where name = ?1 or namespace || ':' || name = ?1 limit 100", text
    )
    return [Node("job", row["namespace"], row["name"]) for row in rows]
