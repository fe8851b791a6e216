"""Two runs side by side, of a notebook or of any job, as a list of differences."""

from __future__ import annotations

from collections.abc import Iterator

from clew.home import LakePlace
from clew.index.browsing import Browser
from clew.query.diff import DatasetDiff, EdgeName, IoDiff, RunDiff, code_diffs, code_in
from clew.query.diff import run_diff as difference
from clew.query.facets import facets_in_lake
from clew.query.model import NotebookRun
from clew.query.notebook_runs import find_run
from clew.query.run_changes import Change, RunChanges, in_order, run_changes, time_changes
from clew.query.run_page_states import dataset_label
from clew.query.run_walk import require_run
from clew.query.views.model import run_line


def run_diff(index: Browser, lake: LakePlace | None, before: str, after: str) -> RunChanges:
    """What is different in the second run; a notebook's runs, by session or by run, are compared cell by cell."""
    notebooks = _notebook(index, before), _notebook(index, after)
    if notebooks[0] is not None and notebooks[1] is not None:
        return run_changes(notebooks[0], notebooks[1])
    old, new = run_line(require_run(index, before)), run_line(require_run(index, after))
    code = code_diffs(_code(before, lake), _code(after, lake))
    return RunChanges(
        before=before,
        before_at=old.started_at,
        after=after,
        after_at=new.started_at,
        name=new.job.name if new.job else after,
        changes=in_order(_changes(difference(index, before, after, code))),
    )


def _notebook(index: Browser, run: str) -> NotebookRun | None:
    row = index.run(run)
    is_whole = row is None or row["parent_run_uuid"] is None
    session = run if row is None else row["session_id"]
    return find_run(index, session) if session and is_whole else None


def _code(run_uuid: str, lake: LakePlace | None) -> dict[str, str | None]:
    """The code of a run, which only the lake has: the index keeps what its job said last."""
    found = None if lake is None else facets_in_lake(run_uuid, lake)
    return {} if found is None else {name: text for job in found.jobs for name, text in code_in(job.facets).items()}


def _changes(found: RunDiff) -> Iterator[Change]:
    if found.state is not None and "FAILED" in (found.state.left, found.state.right):
        yield Change("failed" if found.state.right == "FAILED" else "mended", "the run")
    for side in (found.inputs, found.outputs):
        yield from _data(side)
    for piece in found.code:
        yield Change("code", piece.name, diff=piece.text)
    if found.duration_ms is not None:
        yield from time_changes(found.duration_ms.left or 0.0, found.duration_ms.right or 0.0)


def _data(side: IoDiff) -> Iterator[Change]:
    yield from (Change("added", dataset_label(dataset)) for dataset in side.added)
    yield from (Change("removed", dataset_label(dataset)) for dataset in side.removed)
    for changed in side.changed:
        yield from _dataset(changed)


def _dataset(changed: DatasetDiff) -> Iterator[Change]:
    label = dataset_label(changed.dataset)
    rows, schema = changed.row_count, changed.schema
    if rows is not None and rows.left is not None and rows.right is not None:
        yield Change("rows", label, before=rows.left, after=rows.right)
    if schema is not None and (schema.added or schema.removed):
        yield Change("columns", label, added=schema.added, removed=schema.removed)
    if schema is not None and schema.retyped:
        yield Change("types", label, added=tuple(f"{one.name}: {one.left} → {one.right}" for one in schema.retyped))
    if changed.lineage is not None:
        added, removed = (tuple(map(_edge, edges)) for edges in (changed.lineage.added, changed.lineage.removed))
        yield Change("lineage", label, added=added, removed=removed)


def _edge(edge: EdgeName) -> str:
    return f"{edge.column or 'all columns'} ← {dataset_label(edge.source)} · {edge.source_column or 'all columns'}"
