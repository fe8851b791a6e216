"""What is different in a run of a notebook from the run before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct

from clew.query.costs import total_ms
from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, DatasetState, NotebookRun
from clew.query.run_page_states import dataset_label

# Less is the noise of a machine that does other things as well.
_SLOWER, _SLOWER_MS = 1.5, 1000

ChangeKind = Literal[
    "failed", "mended", "rows", "columns", "types", "added", "removed", "lineage", "code", "slower", "faster"
]


class Change(Struct, frozen=True, rename="camel"):
    """One difference: of what, and what it was before and is after."""

    kind: ChangeKind
    label: str
    before: float | None = None
    after: float | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    text_before: str | None = None
    text_after: str | None = None
    # Of code: where the texts themselves are not at hand, a unified diff of them.
    diff: str | None = None


class RunChanges(Struct, frozen=True, rename="camel"):
    """The differences between two runs, what matters most first."""

    before: str
    before_at: datetime | None
    after: str
    after_at: datetime | None
    name: str
    changes: tuple[Change, ...]


def run_changes(before: NotebookRun, after: NotebookRun) -> RunChanges:
    """Compare two runs."""
    changes = [*_cells(before, after), *_data(_last_states(before), _last_states(after))]
    changes += time_changes(total_ms(before), total_ms(after))
    return RunChanges(
        before=before.session_id,
        before_at=before.started_at,
        after=after.session_id,
        after_at=after.started_at,
        name=after.notebook,
        changes=in_order(changes),
    )


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What matters most first."""
    kinds: tuple[ChangeKind, ...] = get_args(ChangeKind)
    return tuple(sorted(changes, key=lambda change: kinds.index(change.kind)))


def _cells(before: NotebookRun, after: NotebookRun) -> Iterator[Change]:
    old, new = _last_by_cell(before), _last_by_cell(after)
    for key, cell in new.items():
        was = old.get(key)
        if was is None:
            yield Change("added", f"cell {_title(cell)}", text_after=cell.source)
            continue
        if (cell.state == "failed") != (was.state == "failed"):
            yield Change("failed" if cell.state == "failed" else "mended", f"cell {_title(cell)}")
        if cell.source != was.source:
            yield Change("code", f"cell {_title(cell)}", text_before=was.source, text_after=cell.source)
    for key, cell in old.items():
        if key not in new:
            yield Change("removed", f"cell {_title(cell)}", text_before=cell.source)


def _last_by_cell(run: NotebookRun) -> dict[str, CellExecution]:
    return {cell.name if cell.name and cell.name != "_" else cell.cell_id: cell for cell in run.cells}


def _title(cell: CellExecution) -> str:
    return cell.name if cell.name and cell.name != "_" else cell.cell_id


def _data(old: Mapping[str, DatasetState], new: Mapping[str, DatasetState]) -> Iterator[Change]:
    for label, state in new.items():
        was = old.get(label)
        if was is None:
            yield Change("added", label, after=state.row_count)
            continue
        if None not in (state.row_count, was.row_count) and state.row_count != was.row_count:
            yield Change("rows", label, before=was.row_count, after=state.row_count)
        yield from _schema(label, was, state)
    for label in old.keys() - new.keys():
        yield Change("removed", label, before=old[label].row_count)


def _schema(label: str, was: DatasetState, state: DatasetState) -> Iterator[Change]:
    old, new = _types(was), _types(state)
    added, removed = _without(new, old), _without(old, new)
    if added or removed:
        yield Change("columns", label, before=len(old), after=len(new), added=added, removed=removed)
    changed = [f"{name}: {old[name]} → {new[name]}" for name in new if old.get(name, new[name]) != new[name]]
    if changed:
        yield Change("types", label, added=tuple(changed))


def _types(state: DatasetState) -> dict[str, str | None]:
    return {field.name: field.type for field in state.fields}


def _without(names: Iterable[str], others: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)


def _last_states(run: NotebookRun) -> dict[str, DatasetState]:
    """What each file and each variable was in the end, by the name that a person calls it."""
    states = (state for operation in run.operations for state in (*operation.inputs, *operation.outputs))
    return {dataset_label(state.dataset): state for state in states if not is_unnamed(state.dataset)}


def time_changes(old: float, new: float) -> Iterator[Change]:
    """Whether it took a good deal longer or shorter, in milliseconds."""
    if abs(new - old) > _SLOWER_MS and max(old, new) > _SLOWER * min(old, new):
        yield Change("slower" if new > old else "faster", "time", before=old, after=new)
