"""Diff page: changes between two runs of a notebook or of any job."""

from __future__ import annotations

from collections.abc import Iterator

from clew.home import LakeLocation
from clew.index.browsing import PageQueries
from clew.query.diff import DatasetDiff, EdgeKey, IoDiff, RunDiff, code_from_facets, diff_code_by_name, diff_runs
from clew.query.facets import read_facets_from_lake
from clew.query.model import NotebookRun
from clew.query.notebook_runs import find_notebook_run
from clew.query.run_changes import RunChange, RunChanges, compare_runs, duration_changes, order_by_importance
from clew.query.run_page_states import display_name
from clew.query.run_walk import require_run
from clew.query.views.model import to_run_item


def build_run_changes(index: PageQueries, lake: LakeLocation | None, before: str, after: str) -> RunChanges:
    """List the changes between two runs; notebook runs are compared cell by cell."""
    notebooks = _notebook(index, before), _notebook(index, after)
    if notebooks[0] is not None and notebooks[1] is not None:
        return compare_runs(notebooks[0], notebooks[1])
    old, new = to_run_item(require_run(index, before)), to_run_item(require_run(index, after))
    code = diff_code_by_name(_code(before, lake), _code(after, lake))
    return RunChanges(
        before=before,
        before_at=old.started_at,
        after=after,
        after_at=new.started_at,
        name=new.job.name if new.job else after,
        changes=order_by_importance(_changes(diff_runs(index, before, after, code))),
    )


def _notebook(index: PageQueries, run: str) -> NotebookRun | None:
    row = index.run(run)
    is_root = row is None or row["parent_run_uuid"] is None
    session = run if row is None else row["session_id"]
    return find_notebook_run(index, session) if session and is_root else None


def _code(run_uuid: str, lake: LakeLocation | None) -> dict[str, str | None]:
    """Read the code of a run from the lake; the index has only the latest code of its job."""
    facets = None if lake is None else read_facets_from_lake(run_uuid, lake)
    return (
        {}
        if facets is None
        else {name: text for job in facets.jobs for name, text in code_from_facets(job.facets).items()}
    )


def _changes(diff: RunDiff) -> Iterator[RunChange]:
    if diff.state is not None and "FAILED" in (diff.state.left, diff.state.right):
        yield RunChange("failed" if diff.state.right == "FAILED" else "recovered", "the run")
    for io in (diff.inputs, diff.outputs):
        yield from _io_changes(io)
    for code in diff.code:
        yield RunChange("code", code.name, diff=code.text)
    if diff.duration_ms is not None:
        yield from duration_changes(diff.duration_ms.left or 0.0, diff.duration_ms.right or 0.0)


def _io_changes(io: IoDiff) -> Iterator[RunChange]:
    yield from (RunChange("added", display_name(dataset)) for dataset in io.added)
    yield from (RunChange("removed", display_name(dataset)) for dataset in io.removed)
    for changed in io.changed:
        yield from _dataset_changes(changed)


def _dataset_changes(changed: DatasetDiff) -> Iterator[RunChange]:
    label = display_name(changed.dataset)
    rows, schema = changed.row_count, changed.schema
    if rows is not None and rows.left is not None and rows.right is not None:
        yield RunChange("rows", label, before=rows.left, after=rows.right)
    if schema is not None and (schema.added or schema.removed):
        yield RunChange("columns", label, added=schema.added, removed=schema.removed)
    if schema is not None and schema.retyped:
        yield RunChange(
            "types", label, added=tuple(f"{column.name}: {column.left} → {column.right}" for column in schema.retyped)
        )
    if changed.lineage is not None:
        added, removed = (tuple(map(_format_edge, edges)) for edges in (changed.lineage.added, changed.lineage.removed))
        yield RunChange("lineage", label, added=added, removed=removed)


def _format_edge(edge: EdgeKey) -> str:
    return f"{edge.column or 'all columns'} ← {display_name(edge.source)} · {edge.source_column or 'all columns'}"
