"""Versions of the jobs of runs that have ended, kept in step with what is known of the runs.

Whoever sees all events of a run says its version with them. Of a run whose events came apart no one does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from clew.events.states import TERMINAL_RANK
from clew.events.versions import BETWEEN_ITEMS, BETWEEN_NAMES, Identity, version_of_texts
from clew.index.changes import RunIoRow, RunRow
from clew.index.database import Database

# One row per run, its inputs and outputs in one text: ten times fewer rows than one for each.
_ENDED = """select run_uuid, job_namespace, job_name, location, coalesce((
    select group_concat(substr(direction, 1, 1) || dataset_namespace || ?1 || dataset_name, ?2)
    from run_io where run_io.run_uuid = runs.run_uuid
), '')
from runs where run_uuid in (select value ->> 0 from json_each(?3)) and state_rank = ?4 and job_name is not null
and job_version is null"""
_INPUT, _OUTPUT = "I", "O"


def say_job_versions(runs: Iterable[RunRow], io: Iterable[RunIoRow]) -> None:
    """Give the runs that have ended the version that follows from what was seen of them."""
    used: defaultdict[str, list[str]] = defaultdict(list)
    for row in io:
        used[row.run_uuid].append(f"{row.direction[0]}{row.dataset_namespace}{BETWEEN_NAMES}{row.dataset_name}")
    for run in runs:
        if run.state_rank == TERMINAL_RANK and run.job_name is not None:
            job = run.job_namespace or "", run.job_name
            run.job_version = _version(job, BETWEEN_ITEMS.join(used[run.run_uuid]), run.location)


def settle_job_versions(database: Database, run_uuids: Iterable[str]) -> None:
    """Give those of the runs that have ended and lack one the version that follows from all that is known of them."""
    named = BETWEEN_NAMES, BETWEEN_ITEMS, json.dumps([[one] for one in run_uuids]), TERMINAL_RANK
    found = [
        (_version((namespace, job), io, location), run_uuid)
        for run_uuid, namespace, job, location, io in database.execute(_ENDED, named)
    ]
    database.executemany("update runs set job_version = ? where run_uuid = ?", found)


def _version(job: Identity, io: str, location: str | None) -> str:
    return version_of_texts(job, _in(io, _INPUT), _in(io, _OUTPUT), location)


def _in(io: str, direction: str) -> set[str]:
    return {dataset[1:] for dataset in io.split(BETWEEN_ITEMS) if dataset[:1] == direction}
