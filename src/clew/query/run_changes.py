"""Differences between two runs of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct

from clew.query.costs import total_ms
from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.run_page_states import display_name

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
