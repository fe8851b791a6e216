"""Lists of runs of any job: recent, failed or slowest."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from clew.index.reader import IndexReader, Row
from clew.index.run_lists import list_slow_runs, list_top_level_runs
from clew.query.model import State
from clew.query.moments import EPOCH, from_epoch_micros

RunSelection = Literal["recent", "failed", "slow"]
# The slowest runs are searched among this many newest ones, to bound the scan.
SLOW_SAMPLE_SIZE: Final = 20_000


class JobRunSummary(Struct, frozen=True):
    """A run in a list; `session_id` is set for notebook sessions."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None
    error: str | None
    session_id: str | None


def list_job_runs(
    index: IndexReader, selection: RunSelection, since: datetime | None, limit: int
) -> list[JobRunSummary]:
    """List runs that started at `since` or later, newest or slowest first."""
    since_micros = 0 if since is None else (since - EPOCH) // timedelta(microseconds=1)
    if selection == "slow":
        return [_job_run_summary(row) for row in list_slow_runs(index, since_micros, SLOW_SAMPLE_SIZE, limit)]
    return [
        _job_run_summary(row)
        for row in list_top_level_runs(index, since_micros, limit, is_failed=selection == "failed")
    ]


def _job_run_summary(row: Row) -> JobRunSummary:
    has_duration = row["started_at"] is not None and row["ended_at"] is not None
    return JobRunSummary(
        run_uuid=row["run_uuid"],
        job_namespace=row["job_namespace"],
        job_name=row["job_name"],
        state=row["state"],
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        duration_ms=(row["ended_at"] - row["started_at"]) / 1000 if has_duration else None,
        error=row["error_message"],
        session_id=row["session_id"],
    )
