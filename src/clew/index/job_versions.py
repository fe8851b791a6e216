"""Job versions of ended runs.

A worker that sees all events of a run computes its job version. If they arrive in several batches, it is computed after
the merge.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from clew.events.states import TERMINAL_RANK
from clew.events.versions import ITEM_SEPARATOR, NAME_SEPARATOR, Identity, compute_job_version_from_keys
from clew.index.changes import RunIoRow, RunRow
from clew.index.database import Database

# One row per run, with all inputs and outputs in one string: ten times fewer rows than one per input and output.
_ENDED_RUNS = """select run_uuid, job_namespace, job_name, source_code_location, coalesce((
    select group_concat(substr(direction, 1, 1) || dataset_namespace || ?1 || dataset_name, ?2)
    from run_io where run_io.run_uuid = runs.run_uuid
), '')
from runs where run_uuid in (select value ->> 0 from json_each(?3)) and state_rank = ?4 and job_name is not null
and job_version is null"""
_INPUT, _OUTPUT = "I", "O"


def assign_job_versions(runs: Iterable[RunRow], io: Iterable[RunIoRow]) -> None:
    """Set the job version of ended runs from their rows."""
    io_keys: defaultdict[str, list[str]] = defaultdict(list)
    for row in io:
        io_keys[row.run_uuid].append(f"{row.direction[0]}{row.dataset_namespace}{NAME_SEPARATOR}{row.dataset_name}")
    for run in runs:
        if run.state_rank == TERMINAL_RANK and run.job_name is not None:
            job = run.job_namespace or "", run.job_name
            run.job_version = _version(job, ITEM_SEPARATOR.join(io_keys[run.run_uuid]), run.source_code_location)


def fill_job_versions(database: Database, run_uuids: Iterable[str]) -> None:
    """Compute the missing job versions of ended runs after a merge."""
    values = NAME_SEPARATOR, ITEM_SEPARATOR, json.dumps([[run_uuid] for run_uuid in run_uuids]), TERMINAL_RANK
    versions = [
        (_version((namespace, job), io, location), run_uuid)
        for run_uuid, namespace, job, location, io in database.execute(_ENDED_RUNS, values)
    ]
    database.executemany("update runs set job_version = ? where run_uuid = ?", versions)


def _version(job: Identity, io: str, location: str | None) -> str:
    return compute_job_version_from_keys(job, _dataset_keys(io, _INPUT), _dataset_keys(io, _OUTPUT), location)


def _dataset_keys(io: str, direction: str) -> set[str]:
    return {dataset[1:] for dataset in io.split(ITEM_SEPARATOR) if dataset[:1] == direction}
