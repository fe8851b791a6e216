"""Versions of the jobs of runs that have ended, kept in step with what is known of the runs."""

from __future__ import annotations

import json
from collections.abc import Iterable

from clew.events.states import TERMINAL_RANK
from clew.events.versions import BETWEEN_ITEMS, BETWEEN_NAMES, version_of_texts
from clew.index.database import Database

# One row per run, its inputs and outputs in one text: ten times fewer rows than one for each.
_ENDED = """select run_uuid, job_namespace, job_name, location, job_version, coalesce((
    select group_concat(substr(direction, 1, 1) || dataset_namespace || ?1 || dataset_name, ?2)
    from run_io where run_io.run_uuid = runs.run_uuid
), '')
from runs where run_uuid in (select value ->> 0 from json_each(?3)) and state_rank = ?4 and job_name is not null"""
_INPUT, _OUTPUT = "I", "O"


def settle_job_versions(database: Database, run_uuids: Iterable[str]) -> None:
    """Give the runs that have ended the version that follows from all that they read and wrote."""
    named = BETWEEN_NAMES, BETWEEN_ITEMS, json.dumps([[one] for one in run_uuids]), TERMINAL_RANK
    changed = []
    for run_uuid, namespace, job, location, known, io in database.execute(_ENDED, named):
        version = version_of_texts((namespace, job), _in(io, _INPUT), _in(io, _OUTPUT), location)
        if version != known:
            changed.append((version, run_uuid))
    database.executemany("update runs set job_version = ? where run_uuid = ?", changed)


def _in(io: str, direction: str) -> set[str]:
    return {dataset[1:] for dataset in io.split(BETWEEN_ITEMS) if dataset[:1] == direction}
