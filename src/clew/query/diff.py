"""What differs between two runs, or between two versions of a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from clew.index import entities
from clew.index.reader import IndexReader, Row
from clew.query.documents import ColumnInfo, columns_of_schema, duration_ms
from clew.query.model import Dataset, EdgeType
from clew.query.names import UnknownNameError
from clew.query.run_walk import require_run

_MOST_EDGES = 10_000
_MOST_VERSIONS = 1_000
_MOST_CODE_LINES = 2_000

T = TypeVar("T")


class Change(Struct, Generic[T], frozen=True):
    """A value on both sides."""

    left: T
    right: T


class ColumnChange(Struct, frozen=True):
    """A column that is on one side only, or has another type."""

    name: str
    left: str | None
    right: str | None


class SchemaDiff(Struct, frozen=True):
    """Columns that came, went, or have another type."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[ColumnChange, ...]


class EdgeName(Struct, frozen=True, order=True, rename="camel"):
    """An edge of column lineage, as two sides can have it in common."""

    column: str
    source: Dataset
    source_column: str
    type: EdgeType
    subtype: str


class LineageDiff(Struct, frozen=True):
    """Edges into a dataset that came, or went."""

    added: tuple[EdgeName, ...]
    removed: tuple[EdgeName, ...]


class DatasetDiff(Struct, frozen=True, rename="camel"):
    """A dataset that both sides read, or both wrote, and what is different; null is what is the same."""

    dataset: Dataset
    version: Change[str | None] | None
    schema: SchemaDiff | None
    row_count: Change[int | None] | None
    lineage: LineageDiff | None


class IoDiff(Struct, frozen=True):
    """What only one side read or wrote, and what is different in that which both did."""

    added: tuple[Dataset, ...]
    removed: tuple[Dataset, ...]
    changed: tuple[DatasetDiff, ...]


class CodeDiff(Struct, frozen=True):
    """A piece of code that differs: a cell of a notebook, or what a facet gives; a unified diff, cut if it is long."""

    name: str
    text: str


class RunDiff(Struct, frozen=True, rename="camel"):
    """What differs between two runs; null is what is the same, or not known of either."""

    left: str
    right: str
    job: Change[str | None] | None
    state: Change[str] | None
    duration_ms: Change[float | None] | None
    job_version: Change[str | None] | None
    error: Change[str | None] | None
    inputs: IoDiff
    outputs: IoDiff
    code: tuple[CodeDiff, ...]


class VersionDiff(Struct, frozen=True, rename="camel"):
    """What differs between two versions of a dataset, named by the runs that wrote them."""

    dataset: Dataset
    runs: Change[str | None]
    written_by: Change[str | None] | None
    difference: DatasetDiff


def run_diff(index: IndexReader, left: str, right: str, code: tuple[CodeDiff, ...] = ()) -> RunDiff:
    """Compare two runs; `code` is what others know of their code, beside that of notebooks."""
    one, other = require_run(index, left), require_run(index, right)
    return RunDiff(
        left=left,
        right=right,
        job=_changed(_job(one), _job(other)),
        state=_changed(one["state"], other["state"]),
        duration_ms=_changed(duration_ms(one), duration_ms(other)),
        job_version=_changed(one["job_version"], other["job_version"]),
        error=_changed(one["error_message"], other["error_message"]),
        inputs=_io_diff(index, left, right, "INPUT"),
        outputs=_io_diff(index, left, right, "OUTPUT"),
        code=(*code, *_cell_diffs(index, one["session_id"], other["session_id"])),
    )


def version_diff(
    index: IndexReader, dataset: Dataset, left: str | None = None, right: str | None = None
) -> VersionDiff:
    """Compare two versions of a dataset, named by version or by run; the last two unless told."""
    written = entities.writes_of(index, dataset.namespace, dataset.name, _MOST_VERSIONS)
    if len(written) < 2:
        number = "no version" if not written else "one version"
        raise UnknownNameError(
            f"There is {number} of {dataset.name!r}: nothing to compare.", hint="A completed run makes a version."
        )
    newest = written[0] if right is None else _version(written, right, dataset)
    before = written[1] if left is None else _version(written, left, dataset)
    return VersionDiff(
        dataset=dataset,
        runs=Change(before["run_uuid"], newest["run_uuid"]),
        written_by=_changed(_job(before), _job(newest)),
        difference=_dataset_diff(index, dataset, before, newest, "version"),
    )


def code_diff(name: str, left: str | None, right: str | None) -> CodeDiff | None:
    """A piece of code on both sides; None if it is the same."""
    if left == right:
        return None
    lines = list(unified_diff((left or "").splitlines(), (right or "").splitlines(), "left", "right", lineterm="", n=2))
    if len(lines) > _MOST_CODE_LINES:
        lines = [*lines[:_MOST_CODE_LINES], f"({len(lines) - _MOST_CODE_LINES} more lines)"]
    return CodeDiff(name, "\n".join(lines))


def _version(written: list[Row], name: str, dataset: Dataset) -> Row:
    for row in written:
        if name in {row["version"], row["run_uuid"]}:
            return row
    known = [row["version"] or row["run_uuid"] for row in written if row["version"] or row["run_uuid"]]
    raise UnknownNameError.of(f"version of {dataset.name}", name, known)


def _io_diff(index: IndexReader, left: str, right: str, direction: str) -> IoDiff:
    ones, others = (_io(index, run, direction) for run in (left, right))
    changed = (
        _dataset_diff(index, dataset, ones[dataset], others[dataset], "dataset_version")
        for dataset in sorted(ones.keys() & others.keys())
    )
    return IoDiff(
        added=tuple(sorted(others.keys() - ones.keys())),
        removed=tuple(sorted(ones.keys() - others.keys())),
        changed=tuple(one for one in changed if one.version or one.schema or one.row_count or one.lineage),
    )


def _io(index: IndexReader, run: str, direction: str) -> dict[Dataset, Row]:
    rows = entities.run_io_rows(index, run)
    # Of a dataset that a run used in several versions the last counts.
    return {
        Dataset(row["dataset_namespace"], row["dataset_name"]): row for row in rows if row["direction"] == direction
    }


def _dataset_diff(index: IndexReader, dataset: Dataset, left: Row, right: Row, version: str) -> DatasetDiff:
    return DatasetDiff(
        dataset=dataset,
        version=_changed(left[version] or None, right[version] or None),
        schema=_schema_diff(columns_of_schema(index, left["schema_id"]), columns_of_schema(index, right["schema_id"])),
        row_count=_changed(left["row_count"], right["row_count"]),
        lineage=_lineage_diff(index, dataset, left["run_uuid"], right["run_uuid"]),
    )


def _schema_diff(left: tuple[ColumnInfo, ...], right: tuple[ColumnInfo, ...]) -> SchemaDiff | None:
    ones, others = ({column.name: column.type for column in side} for side in (left, right))
    retyped = tuple(
        ColumnChange(name, ones[name], others[name])
        for name in ones
        if name in others and _is_other_type(ones[name], others[name])
    )
    added, removed = (
        tuple(name for name in others if name not in ones),
        tuple(name for name in ones if name not in others),
    )
    return SchemaDiff(added, removed, retyped) if added or removed or retyped else None


def _is_other_type(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _lineage_diff(index: IndexReader, dataset: Dataset, left: str | None, right: str | None) -> LineageDiff | None:
    ones, others = (_edges(index, dataset, run) for run in (left, right))
    if ones == others:
        return None
    return LineageDiff(tuple(sorted(others - ones)), tuple(sorted(ones - others)))


def _edges(index: IndexReader, dataset: Dataset, run: str | None) -> set[EdgeName]:
    rows = [] if run is None else entities.run_edges(index, run, _MOST_EDGES)
    return {
        EdgeName(
            row["column"] or "",
            Dataset(row["source_namespace"], row["source_name"]),
            row["source_column"] or "",
            "INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
            row["subtype"] or "",
        )
        for row in rows
        if (row["dataset_namespace"], row["dataset_name"]) == (dataset.namespace, dataset.name)
    }


def _cell_diffs(index: IndexReader, left: str | None, right: str | None) -> tuple[CodeDiff, ...]:
    """Cells of two sessions of a notebook, by their names."""
    if left is None or right is None or left == right:
        return ()
    ones, others = (
        {row["cell_name"] or row["cell_id"] or "": row["cell_source"] for row in index.cells(session)}
        for session in (left, right)
    )
    return code_diffs(ones, others)


def code_diffs(left: Mapping[str, str | None], right: Mapping[str, str | None]) -> tuple[CodeDiff, ...]:
    """Pieces of code by their names, those that differ."""
    names = dict.fromkeys((*left, *right))
    found = (code_diff(name, left.get(name), right.get(name)) for name in names)
    return tuple(one for one in found if one is not None)


def code_in(facets: Mapping[str, Any]) -> dict[str, str | None]:
    """The pieces of code that facets of a job give."""
    found: dict[str, str | None] = {}
    for name, key in (("sql", "query"), ("sourceCode", "sourceCode")):
        if name in facets:
            value = msgspec.json.decode(facets[name])
            text = value.get(key) if isinstance(value, dict) else None
            if isinstance(text, str):
                found[name] = text
    return found


def _job(row: Row) -> str | None:
    return None if row["job_name"] is None else f"{row['job_namespace']}:{row['job_name']}"


def _changed(left: T, right: T) -> Change[T] | None:
    return None if left == right else Change(left, right)
