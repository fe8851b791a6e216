"""Runs of whatever job, as a list: the newest, those that failed, those that took longest."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from clew.index.reader import IndexReader, Row
from clew.index.run_lists import slow_runs, whole_runs
from clew.query.model import State
from clew.query.moments import EPOCH, moment

RunKind = Literal["recent", "failed", "slow"]
# Those that took longest are looked for among the newest: all runs would be too many to look at.
SLOW_AMONG: Final = 20_000


class RunEntry(Struct, frozen=True):
    """A run in a list; that of a notebook session has its id."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None
    error: str | None
    session_id: str | None


def run_entries(index: IndexReader, kind: RunKind, since: datetime | None, limit: int) -> list[RunEntry]:
    """Runs that began at `since` or later, the newest or the slowest first."""
    from_ = 0 if since is None else (since - EPOCH) // timedelta(microseconds=1)
    if kind == "slow":
        return [_entry(row) for row in slow_runs(index, from_, SLOW_AMONG, limit)]
    return [_entry(row) for row in whole_runs(index, from_, limit, is_failed=kind == "failed")]


def _entry(row: Row) -> RunEntry:
    is_over = row["started_at"] is not None and row["ended_at"] is not None
    return RunEntry(
        run_uuid=row["run_uuid"],
        job_namespace=row["job_namespace"],
        job_name=row["job_name"],
        state=row["state"],
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
        duration_ms=(row["ended_at"] - row["started_at"]) / 1000 if is_over else None,
        error=row["error_message"],
        session_id=row["session_id"],
    )
