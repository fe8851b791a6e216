"""Two runs side by side, of a notebook or of any job."""

from __future__ import annotations

import msgspec

from clew.index.browsing import Browser
from clew.index.reader import Row
from clew.query.model import Dataset, DatasetState, Field, NotebookRun
from clew.query.names import UnknownNameError
from clew.query.notebook_runs import find_run
from clew.query.run_changes import Change, RunChanges, data_changes, run_changes, time_changes
from clew.query.run_page_states import dataset_label
from clew.query.views.model import RunLine, run_line

_decode_fields = msgspec.json.Decoder(list[Field], strict=False).decode


def run_diff(index: Browser, before: str, after: str) -> RunChanges:
    """What is different in the second run; a notebook's runs, by session or by run, are compared cell by cell."""
    notebooks = _notebook(index, before), _notebook(index, after)
    if notebooks[0] is not None and notebooks[1] is not None:
        return run_changes(notebooks[0], notebooks[1])
    old, new = _run(index, before), _run(index, after)
    changes = [
        *_outcome(old, new),
        *data_changes(_states(index, before), _states(index, after)),
        *time_changes(_took(old), _took(new)),
    ]
    return RunChanges(
        before=before,
        before_at=old.started_at,
        after=after,
        after_at=new.started_at,
        name=new.job.name if new.job else after,
        changes=tuple(changes),
    )


def _notebook(index: Browser, run: str) -> NotebookRun | None:
    row = index.run(run)
    is_whole = row is None or row["parent_run_uuid"] is None
    session = run if row is None else row["session_id"]
    return find_run(index, session) if session and is_whole else None


def _run(index: Browser, run_uuid: str) -> RunLine:
    row = index.run(run_uuid)
    if row is None:
        raise UnknownNameError.of("run", run_uuid, [one["run_uuid"] for one in index.run_page("", "", 1000)[0]])
    return run_line(row)


def _outcome(old: RunLine, new: RunLine) -> list[Change]:
    if (old.state == "FAILED") == (new.state == "FAILED"):
        return []
    return [Change("failed" if new.state == "FAILED" else "mended", "the run", text_after=new.error)]


def _took(run: RunLine) -> float:
    if run.started_at is None or run.ended_at is None:
        return 0.0
    return (run.ended_at - run.started_at).total_seconds() * 1000


def _states(index: Browser, run_uuid: str) -> dict[str, DatasetState]:
    return {dataset_label(state.dataset): state for state in (_state(index, row) for row in index.run_io(run_uuid))}


def _state(index: Browser, row: Row) -> DatasetState:
    dataset = Dataset(row["dataset_namespace"], row["dataset_name"])
    stored = None if row["schema_id"] is None else index.schema(row["schema_id"])
    fields = () if stored is None else tuple(_decode_fields(stored))
    return DatasetState(dataset, row["dataset_version"] or None, fields, row["row_count"])
