"""Differences between runs, versions and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.events.facets import decode_facet, get_str
from clew.index.queries.entities import Name
from clew.index.queries.reader import IndexReader
from clew.query.entities.datasets import load_schemas
from clew.query.entities.facets import read_facets_from_lake
from clew.query.entities.model import CatalogRun, RunDataset, VersionCache, VersionRecord
from clew.query.entities.runs import describe_run
from clew.query.model import CellExecution, DatasetName, DatasetState, EdgeType, NotebookRun, to_edge_type
from clew.query.names import UnknownNameError, qualified_name
from clew.query.notebooks.reports import total_ms
from clew.query.notebooks.session import display_name
from clew.query.quality import SchemaDiff, diff_columns

_MAX_EDGES = 10_000
_MAX_CODE_LINES = 2_000

T = TypeVar("T")


class ValueChange(Struct, Generic[T], frozen=True):
    """A value that differs between the two sides."""

    left: T
    right: T


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


def diff_runs(index: IndexReader, left: str, right: str, lake: LakeLocation | None = None) -> RunDiff:
    """Compare two runs; with a lake, the code in their facets, too."""
    left_run, right_run = (describe_run(index, run) for run in (left, right))
    code = diff_code_by_name(_read_code(left, lake), _read_code(right, lake))
    return RunDiff(
        left=left,
        right=right,
        job=_value_change(_format_name(left_run.job), _format_name(right_run.job)),
        state=_value_change(left_run.state, right_run.state),
        duration_ms=_value_change(left_run.duration_ms, right_run.duration_ms),
        job_version=_value_change(left_run.job_version, right_run.job_version),
        error=_value_change(left_run.error, right_run.error),
        inputs=_diff_io(index, _datasets(left_run, left_run.inputs), _datasets(right_run, right_run.inputs)),
        outputs=_diff_io(index, _datasets(left_run, left_run.outputs), _datasets(right_run, right_run.outputs)),
        code=(*code, *_diff_cells(index, left_run.session_id, right_run.session_id)),
    )


def diff_versions(
    index: IndexReader, dataset: DatasetName, left: str | None = None, right: str | None = None
) -> VersionDiff:
    """Compare two versions of a dataset, given by version or by run; by default the last two."""
    name = dataset.namespace, dataset.name
    versions = VersionCache(index, {name: index.aliases_of(name)}).get(name)[::-1]
    if len(versions) < 2:
        count = "no version" if not versions else "one version"
        raise UnknownNameError(
            f"There is {count} of {dataset.name!r}: nothing to compare.", hint="Each completed run writes a version."
        )
    right_version = versions[0] if right is None else _find_version(versions, right, dataset)
    left_version = versions[1] if left is None else _find_version(versions, left, dataset)
    runs = index.runs_of({record.run_uuid for record in (left_version, right_version) if record.run_uuid is not None})
    jobs = {run_uuid: qualified_name(run.job_namespace, run.job_name) or None for run_uuid, run in runs.items()}
    return VersionDiff(
        dataset=dataset,
        runs=ValueChange(left_version.run_uuid, right_version.run_uuid),
        written_by=_value_change(jobs.get(left_version.run_uuid or ""), jobs.get(right_version.run_uuid or "")),
        difference=_diff_dataset(index, dataset, _written(left_version), _written(right_version)),
    )


def diff_code(name: str, left: str | None, right: str | None) -> CodeDiff | None:
    """Return a unified diff of two texts, or None if they are equal."""
    if left == right:
        return None
    lines = list(unified_diff((left or "").splitlines(), (right or "").splitlines(), "left", "right", lineterm="", n=2))
    if len(lines) > _MAX_CODE_LINES:
        lines = [*lines[:_MAX_CODE_LINES], f"({len(lines) - _MAX_CODE_LINES} more lines)"]
    return CodeDiff(name, "\n".join(lines))


def _find_version(versions: list[VersionRecord], name: str, dataset: DatasetName) -> VersionRecord:
    for record in versions:
        if name in {record.producer_version or None, record.run_uuid}:
            return record
    existing = (record.producer_version or record.run_uuid for record in versions)
    raise UnknownNameError.of(f"version of {dataset.name}", name, filter(None, existing))


class _Side(NamedTuple):
    """A dataset on one side of a diff: as a run used it, or a version of it."""

    run_uuid: str | None
    version: str | None
    schema_id: str | None
    row_count: int | None


def _written(record: VersionRecord) -> _Side:
    return _Side(record.run_uuid, record.producer_version or None, record.schema_id, record.row_count)


def _datasets(run: CatalogRun, datasets: Iterable[RunDataset]) -> dict[DatasetName, _Side]:
    # If a run used several versions of a dataset, the last one is compared.
    return {
        DatasetName(used.namespace, used.name): _Side(run.id, used.version, used.schema_id, used.row_count)
        for used in datasets
    }


def _diff_io(index: IndexReader, left: dict[DatasetName, _Side], right: dict[DatasetName, _Side]) -> IoDiff:
    changed = (
        _diff_dataset(index, dataset, left[dataset], right[dataset]) for dataset in sorted(left.keys() & right.keys())
    )
    return IoDiff(
        added=tuple(sorted(right.keys() - left.keys())),
        removed=tuple(sorted(left.keys() - right.keys())),
        changed=tuple(diff for diff in changed if diff.version or diff.schema or diff.row_count or diff.lineage),
    )


def _diff_dataset(index: IndexReader, dataset: DatasetName, left: _Side, right: _Side) -> DatasetDiff:
    schemas = load_schemas(index, (left.schema_id, right.schema_id))
    return DatasetDiff(
        dataset=dataset,
        version=_value_change(left.version, right.version),
        schema=diff_columns(schemas.get(left.schema_id, ()), schemas.get(right.schema_id, ())),
        row_count=_value_change(left.row_count, right.row_count),
        lineage=_diff_lineage(index, dataset, left.run_uuid, right.run_uuid),
    )


def _diff_lineage(index: IndexReader, dataset: DatasetName, left: str | None, right: str | None) -> LineageDiff | None:
    left_edges, right_edges = (_edge_keys(index, dataset, run) for run in (left, right))
    if left_edges == right_edges:
        return None
    return LineageDiff(tuple(sorted(right_edges - left_edges)), tuple(sorted(left_edges - right_edges)))


def _edge_keys(index: IndexReader, dataset: DatasetName, run: str | None) -> set[EdgeKey]:
    rows = [] if run is None else index.edges_of_run(run, _MAX_EDGES)
    return {
        EdgeKey(
            row["column"] or "",
            DatasetName(row["source_namespace"], row["source_name"]),
            row["source_column"] or "",
            to_edge_type(row["type"]),
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


def _read_code(run_uuid: str, lake: LakeLocation | None) -> dict[str, str | None]:
    """Read the code of a run from the lake; the index has only the latest code of its job."""
    facets = None if lake is None else read_facets_from_lake(run_uuid, lake)
    jobs = () if facets is None else facets.jobs
    return {name: text for job in jobs for name, text in _code_from_facets(job.facets).items()}


def _code_from_facets(facets: Mapping[str, Any]) -> dict[str, str | None]:
    """Extract the code in the `sql` and `sourceCode` facets of a job."""
    code: dict[str, str | None] = {}
    for name, key in (("sql", "query"), ("sourceCode", "sourceCode")):
        text = get_str(decode_facet(bytes(facets[name])), key) if name in facets else None
        if text is not None:
            code[name] = text
    return code


def _format_name(name: Name | None) -> str | None:
    return None if name is None else ":".join(name)


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
            yield RunChange("added", f"cell {cell.own_name or cell.cell_id}", text_after=cell.source)
            continue
        if (cell.state == "failed") != (previous.state == "failed"):
            yield RunChange(
                "failed" if cell.state == "failed" else "recovered", f"cell {cell.own_name or cell.cell_id}"
            )
        if cell.source != previous.source:
            yield RunChange(
                "code", f"cell {cell.own_name or cell.cell_id}", text_before=previous.source, text_after=cell.source
            )
    for key, cell in old.items():
        if key not in new:
            yield RunChange("removed", f"cell {cell.own_name or cell.cell_id}", text_before=cell.source)


def _last_by_cell(run: NotebookRun) -> dict[str, CellExecution]:
    return {cell.own_name or cell.cell_id: cell for cell in run.cells}


def _dataset_changes(old: Mapping[str, DatasetState], new: Mapping[str, DatasetState]) -> Iterator[RunChange]:
    for label, state in new.items():
        previous = old.get(label)
        if previous is None:
            yield RunChange("added", label, after=state.row_count)
            continue
        if None not in (state.row_count, previous.row_count) and state.row_count != previous.row_count:
            yield RunChange("rows", label, before=previous.row_count, after=state.row_count)
        schema = diff_columns(previous.fields, state.fields)
        yield from schema_changes(label, schema, (len(previous.fields), len(state.fields)))
    for label in old.keys() - new.keys():
        yield RunChange("removed", label, before=old[label].row_count)


def schema_changes(label: str, schema: SchemaDiff | None, counts: tuple[int | None, int | None]) -> Iterator[RunChange]:
    """Yield changes of columns and types; `counts` are the numbers of columns before and after."""
    if schema is not None and (schema.added or schema.removed):
        yield RunChange("columns", label, *counts, schema.added, schema.removed)
    if schema is not None and schema.retyped:
        yield RunChange("types", label, added=tuple(map(str, schema.retyped)))


def _final_states(run: NotebookRun) -> dict[str, DatasetState]:
    """Return the final state of each file and variable, by display name."""
    states = (state for operation in run.operations for state in (*operation.inputs, *operation.outputs))
    return {display_name(state.dataset): state for state in states if not state.dataset.is_intermediate_frame}


def duration_changes(old: float, new: float) -> Iterator[RunChange]:
    """Yield a change if two durations (ms) differ significantly."""
    if abs(new - old) > _MIN_DURATION_DIFFERENCE_MS and max(old, new) > _MIN_DURATION_RATIO * min(old, new):
        yield RunChange("slower" if new > old else "faster", "time", before=old, after=new)
