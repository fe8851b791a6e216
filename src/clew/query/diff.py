"""Differences between runs, versions and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import Struct

from clew.index.backends.base import Row
from clew.index.queries import entities
from clew.index.queries.reader import IndexReader
from clew.query.entities.facets import ColumnInfo, load_schema_columns, run_duration_ms
from clew.query.graph.traversal import require_run
from clew.query.model import CellExecution, DatasetName, DatasetState, EdgeType, NotebookRun
from clew.query.names import UnknownNameError
from clew.query.notebooks.reports import total_ms
from clew.query.notebooks.session import display_name
from clew.query.upstream import is_intermediate_frame

_MAX_EDGES = 10_000
_MAX_VERSIONS = 1_000
_MAX_CODE_LINES = 2_000

T = TypeVar("T")


class ValueChange(Struct, Generic[T], frozen=True):
    """A value that differs between the two sides."""

    left: T
    right: T


class ColumnChange(Struct, frozen=True):
    """A column with different types."""

    name: str
    left: str | None
    right: str | None


class SchemaDiff(Struct, frozen=True):
    """Columns that were added, removed or changed their type."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[ColumnChange, ...]


class EdgeKey(Struct, frozen=True, order=True, rename="camel"):
    """A column lineage edge without its run, for comparison."""

    column: str
    source: DatasetName
    source_column: str
    type: EdgeType
    subtype: str


class LineageDiff(Struct, frozen=True):
    """Incoming column lineage edges that were added or removed."""

    added: tuple[EdgeKey, ...]
    removed: tuple[EdgeKey, ...]


class DatasetDiff(Struct, frozen=True, rename="camel"):
    """Differences in a dataset that both sides read or both wrote; null means equal."""

    dataset: DatasetName
    version: ValueChange[str | None] | None
    schema: SchemaDiff | None
    row_count: ValueChange[int | None] | None
    lineage: LineageDiff | None


class IoDiff(Struct, frozen=True):
    """Inputs or outputs of only one side, and differences in the common ones."""

    added: tuple[DatasetName, ...]
    removed: tuple[DatasetName, ...]
    changed: tuple[DatasetDiff, ...]


class CodeDiff(Struct, frozen=True):
    """A unified diff of a notebook cell or of the code in a facet, truncated if long."""

    name: str
    text: str


class RunDiff(Struct, frozen=True, rename="camel"):
    """Differences between two runs; null means equal or unknown on both sides."""

    left: str
    right: str
    job: ValueChange[str | None] | None
    state: ValueChange[str] | None
    duration_ms: ValueChange[float | None] | None
    job_version: ValueChange[str | None] | None
    error: ValueChange[str | None] | None
    inputs: IoDiff
    outputs: IoDiff
    code: tuple[CodeDiff, ...]


class VersionDiff(Struct, frozen=True, rename="camel"):
    """Differences between two versions of a dataset, identified by the runs that wrote them."""

    dataset: DatasetName
    runs: ValueChange[str | None]
    written_by: ValueChange[str | None] | None
    difference: DatasetDiff


def diff_runs(index: IndexReader, left: str, right: str, code: tuple[CodeDiff, ...] = ()) -> RunDiff:
    """Compare two runs; `code` adds code diffs that do not come from notebook cells."""
    left_run, right_run = require_run(index, left), require_run(index, right)
    return RunDiff(
        left=left,
        right=right,
        job=_value_change(_job_name(left_run), _job_name(right_run)),
        state=_value_change(left_run["state"], right_run["state"]),
        duration_ms=_value_change(run_duration_ms(left_run), run_duration_ms(right_run)),
        job_version=_value_change(left_run["job_version"], right_run["job_version"]),
        error=_value_change(left_run["error_message"], right_run["error_message"]),
        inputs=_diff_io(index, left, right, "INPUT"),
        outputs=_diff_io(index, left, right, "OUTPUT"),
        code=(*code, *_diff_cells(index, left_run["session_id"], right_run["session_id"])),
    )


def diff_versions(
    index: IndexReader, dataset: DatasetName, left: str | None = None, right: str | None = None
) -> VersionDiff:
    """Compare two versions of a dataset, given by version or by run; by default the last two."""
    versions = entities.list_dataset_versions(index, dataset.namespace, dataset.name, _MAX_VERSIONS)
    if len(versions) < 2:
        count = "no version" if not versions else "one version"
        raise UnknownNameError(
            f"There is {count} of {dataset.name!r}: nothing to compare.", hint="Each completed run writes a version."
        )
    right_version = versions[0] if right is None else _find_version(versions, right, dataset)
    left_version = versions[1] if left is None else _find_version(versions, left, dataset)
    return VersionDiff(
        dataset=dataset,
        runs=ValueChange(left_version["run_uuid"], right_version["run_uuid"]),
        written_by=_value_change(_job_name(left_version), _job_name(right_version)),
        difference=_diff_dataset(index, dataset, left_version, right_version, "version"),
    )


def diff_code(name: str, left: str | None, right: str | None) -> CodeDiff | None:
    """Return a unified diff of two texts, or None if they are equal."""
    if left == right:
        return None
    lines = list(unified_diff((left or "").splitlines(), (right or "").splitlines(), "left", "right", lineterm="", n=2))
    if len(lines) > _MAX_CODE_LINES:
        lines = [*lines[:_MAX_CODE_LINES], f"({len(lines) - _MAX_CODE_LINES} more lines)"]
    return CodeDiff(name, "\n".join(lines))


def _find_version(versions: list[Row], name: str, dataset: DatasetName) -> Row:
    for row in versions:
        if name in {row["version"], row["run_uuid"]}:
            return row
    names = [row["version"] or row["run_uuid"] for row in versions if row["version"] or row["run_uuid"]]
    raise UnknownNameError.of(f"version of {dataset.name}", name, names)


def _diff_io(index: IndexReader, left: str, right: str, direction: str) -> IoDiff:
    left_io, right_io = (_datasets_by_direction(index, run, direction) for run in (left, right))
    changed = (
        _diff_dataset(index, dataset, left_io[dataset], right_io[dataset], "dataset_version")
        for dataset in sorted(left_io.keys() & right_io.keys())
    )
    return IoDiff(
        added=tuple(sorted(right_io.keys() - left_io.keys())),
        removed=tuple(sorted(left_io.keys() - right_io.keys())),
        changed=tuple(diff for diff in changed if diff.version or diff.schema or diff.row_count or diff.lineage),
    )


def _datasets_by_direction(index: IndexReader, run: str, direction: str) -> dict[DatasetName, Row]:
    rows = entities.list_run_io(index, run)
    # If a run used several versions of a dataset, the last one is compared.
    return {
        DatasetName(row["dataset_namespace"], row["dataset_name"]): row for row in rows if row["direction"] == direction
    }


def _diff_dataset(index: IndexReader, dataset: DatasetName, left: Row, right: Row, version: str) -> DatasetDiff:
    return DatasetDiff(
        dataset=dataset,
        version=_value_change(left[version] or None, right[version] or None),
        schema=_diff_schema(
            load_schema_columns(index, left["schema_id"]), load_schema_columns(index, right["schema_id"])
        ),
        row_count=_value_change(left["row_count"], right["row_count"]),
        lineage=_diff_lineage(index, dataset, left["run_uuid"], right["run_uuid"]),
    )


def _diff_schema(left: tuple[ColumnInfo, ...], right: tuple[ColumnInfo, ...]) -> SchemaDiff | None:
    left_types, right_types = ({column.name: column.type for column in side} for side in (left, right))
    retyped = tuple(
        ColumnChange(name, left_types[name], right_types[name])
        for name in left_types
        if name in right_types and _has_type_changed(left_types[name], right_types[name])
    )
    added, removed = (
        tuple(name for name in right_types if name not in left_types),
        tuple(name for name in left_types if name not in right_types),
    )
    return SchemaDiff(added, removed, retyped) if added or removed or retyped else None


def _has_type_changed(left: str | None, right: str | None) -> bool:
    return left is not None and right is not None and left != right


def _diff_lineage(index: IndexReader, dataset: DatasetName, left: str | None, right: str | None) -> LineageDiff | None:
    left_edges, right_edges = (_edge_keys(index, dataset, run) for run in (left, right))
    if left_edges == right_edges:
        return None
    return LineageDiff(tuple(sorted(right_edges - left_edges)), tuple(sorted(left_edges - right_edges)))


def _edge_keys(index: IndexReader, dataset: DatasetName, run: str | None) -> set[EdgeKey]:
    rows = [] if run is None else entities.list_run_edges(index, run, _MAX_EDGES)
    return {
        EdgeKey(
            row["column"] or "",
            DatasetName(row["source_namespace"], row["source_name"]),
            row["source_column"] or "",
            "INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
            row["subtype"] or "",
        )
        for row in rows
        if (row["dataset_namespace"], row["dataset_name"]) == (dataset.namespace, dataset.name)
    }


def _diff_cells(index: IndexReader, left: str | None, right: str | None) -> tuple[CodeDiff, ...]:
    """Compare the cells of two notebook sessions by name."""
    if left is None or right is None or left == right:
        return ()
    left_cells, right_cells = (
        {row["cell_name"] or row["cell_id"] or "": row["cell_source"] for row in index.cells(session)}
        for session in (left, right)
    )
    return diff_code_by_name(left_cells, right_cells)


def diff_code_by_name(left: Mapping[str, str | None], right: Mapping[str, str | None]) -> tuple[CodeDiff, ...]:
    """Compare texts by name; return the diffs of those that differ."""
    names = dict.fromkeys((*left, *right))
    diffs = (diff_code(name, left.get(name), right.get(name)) for name in names)
    return tuple(diff for diff in diffs if diff is not None)


def code_from_facets(facets: Mapping[str, Any]) -> dict[str, str | None]:
    """Extract the code in the `sql` and `sourceCode` facets of a job."""
    code: dict[str, str | None] = {}
    for name, key in (("sql", "query"), ("sourceCode", "sourceCode")):
        if name in facets:
            value = msgspec.json.decode(facets[name])
            text = value.get(key) if isinstance(value, dict) else None
            if isinstance(text, str):
                code[name] = text
    return code


def _job_name(row: Row) -> str | None:
    return None if row["job_name"] is None else f"{row['job_namespace']}:{row['job_name']}"


def _value_change(left: T, right: T) -> ValueChange[T] | None:
    return None if left == right else ValueChange(left, right)


# Smaller differences are noise.
_MIN_DURATION_RATIO, _MIN_DURATION_DIFFERENCE_MS = 1.5, 1000

ChangeKind = Literal[
    "failed", "recovered", "rows", "columns", "types", "added", "removed", "lineage", "code", "slower", "faster"
]


class RunChange(Struct, frozen=True, rename="camel"):
    """One difference, with the values before and after."""

    kind: ChangeKind
    label: str
    before: float | None = None
    after: float | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    text_before: str | None = None
    text_after: str | None = None
    # Unified diff, for code without full texts.
    diff: str | None = None


class RunChanges(Struct, frozen=True, rename="camel"):
    """Differences between two runs, most important first."""

    before: str
    before_at: datetime | None
    after: str
    after_at: datetime | None
    name: str
    changes: tuple[RunChange, ...]


def compare_runs(before: NotebookRun, after: NotebookRun) -> RunChanges:
    """Compare two runs."""
    changes = [*_cell_changes(before, after), *_dataset_changes(_final_states(before), _final_states(after))]
    changes += duration_changes(total_ms(before), total_ms(after))
    return RunChanges(
        before=before.session_id,
        before_at=before.started_at,
        after=after.session_id,
        after_at=after.started_at,
        name=after.notebook,
        changes=order_by_importance(changes),
    )


def order_by_importance(changes: Iterable[RunChange]) -> tuple[RunChange, ...]:
    """Sort changes by kind, most important first."""
    kinds: tuple[ChangeKind, ...] = get_args(ChangeKind)
    return tuple(sorted(changes, key=lambda change: kinds.index(change.kind)))


def _cell_changes(before: NotebookRun, after: NotebookRun) -> Iterator[RunChange]:
    old, new = _last_by_cell(before), _last_by_cell(after)
    for key, cell in new.items():
        previous = old.get(key)
        if previous is None:
            yield RunChange("added", f"cell {_title(cell)}", text_after=cell.source)
            continue
        if (cell.state == "failed") != (previous.state == "failed"):
            yield RunChange("failed" if cell.state == "failed" else "recovered", f"cell {_title(cell)}")
        if cell.source != previous.source:
            yield RunChange("code", f"cell {_title(cell)}", text_before=previous.source, text_after=cell.source)
    for key, cell in old.items():
        if key not in new:
            yield RunChange("removed", f"cell {_title(cell)}", text_before=cell.source)


def _last_by_cell(run: NotebookRun) -> dict[str, CellExecution]:
    return {cell.name if cell.name and cell.name != "_" else cell.cell_id: cell for cell in run.cells}


def _title(cell: CellExecution) -> str:
    return cell.name if cell.name and cell.name != "_" else cell.cell_id


def _dataset_changes(old: Mapping[str, DatasetState], new: Mapping[str, DatasetState]) -> Iterator[RunChange]:
    for label, state in new.items():
        previous = old.get(label)
        if previous is None:
            yield RunChange("added", label, after=state.row_count)
            continue
        if None not in (state.row_count, previous.row_count) and state.row_count != previous.row_count:
            yield RunChange("rows", label, before=previous.row_count, after=state.row_count)
        yield from _schema_changes(label, previous, state)
    for label in old.keys() - new.keys():
        yield RunChange("removed", label, before=old[label].row_count)


def _schema_changes(label: str, previous: DatasetState, state: DatasetState) -> Iterator[RunChange]:
    old, new = _types(previous), _types(state)
    added, removed = _names_not_in(new, old), _names_not_in(old, new)
    if added or removed:
        yield RunChange("columns", label, before=len(old), after=len(new), added=added, removed=removed)
    changed = [f"{name}: {old[name]} → {new[name]}" for name in new if old.get(name, new[name]) != new[name]]
    if changed:
        yield RunChange("types", label, added=tuple(changed))


def _types(state: DatasetState) -> dict[str, str | None]:
    return {field.name: field.type for field in state.fields}


def _names_not_in(names: Iterable[str], existing: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in existing)


def _final_states(run: NotebookRun) -> dict[str, DatasetState]:
    """Return the final state of each file and variable, by display name."""
    states = (state for operation in run.operations for state in (*operation.inputs, *operation.outputs))
    return {display_name(state.dataset): state for state in states if not is_intermediate_frame(state.dataset)}


def duration_changes(old: float, new: float) -> Iterator[RunChange]:
    """Yield a change if two durations (ms) differ significantly."""
    if abs(new - old) > _MIN_DURATION_DIFFERENCE_MS and max(old, new) > _MIN_DURATION_RATIO * min(old, new):
        yield RunChange("slower" if new > old else "faster", "time", before=old, after=new)
