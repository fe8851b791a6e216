"""How a row of a batch joins the row that is there. The merge is the upsert: batches may come twice, or late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Rule = Callable[[str], str]


def newest(column: str) -> str:
    """The value of the row received last; a null never hides a value."""
    return (
        f"case when excluded.last_seq >= last_seq then coalesce(excluded.{column}, {column})"
        f" else coalesce({column}, excluded.{column}) end"
    )


def of_last(column: str) -> str:
    """The value of the row received last, even if it is null: rows that are whole are not mixed."""
    return f"case when excluded.last_seq >= last_seq then excluded.{column} else {column} end"


def of_later_event(column: str) -> str:
    """The value of the row whose events are later by their own time."""
    moment, incoming = "(last_event_at, last_seq)", "(excluded.last_event_at, excluded.last_seq)"
    return f"case when {incoming} >= {moment} then excluded.{column} else {column} end"


def kept(column: str) -> str:
    """The value that came first."""
    return f"coalesce({column}, excluded.{column})"


def least(column: str) -> str:
    """The smaller of both, or the one that is known."""
    return f"min(coalesce({column}, excluded.{column}), coalesce(excluded.{column}, {column}))"


def of_last_said(column: str) -> str:
    """The value of the statement received last."""
    return f"case when excluded.seq >= seq then excluded.{column} else {column} end"


def greatest(column: str) -> str:
    """The larger of both, or the one that is known."""
    return f"max(coalesce({column}, excluded.{column}), coalesce(excluded.{column}, {column}))"


def of_higher_state(column: str) -> str:
    """A terminal state is sticky: by rank, then by event time, then by arrival."""
    rank = "(state_rank, coalesce(state_at, 0), state_seq)"
    incoming = "(excluded.state_rank, coalesce(excluded.state_at, 0), excluded.state_seq)"
    return f"case when {incoming} >= {rank} then excluded.{column} else {column} end"


def of_stronger_end(column: str) -> str:
    """A cell that has ended does not run again, and one that failed has not completed."""
    return f"case when {_end_rank(f'excluded.{column}')} > {_end_rank(column)} then excluded.{column} else {column} end"


def _end_rank(column: str) -> str:
    return f"case {column} when 'failed' then 3 when 'stopped' then 2 when 'completed' then 1 else 0 end"


@dataclass(frozen=True)
class Merge:
    """A table of the index: its key, and how each other column is merged."""

    key: tuple[str, ...]
    columns: Mapping[str, Rule] = field(default_factory=dict)

    def upsert(self, table: str, names: Sequence[str]) -> str:
        """The statement that takes one row, its values in the order of `names`."""
        sets = ", ".join(f'"{column}" = {rule(column)}' for column, rule in self.columns.items())
        columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        conflict = f"update set {sets}" if sets else "nothing"
        return f"insert into {table} ({columns}) values ({marks}) on conflict do {conflict}"  # noqa: S608


def _all(rule: Rule, *columns: str) -> dict[str, Rule]:
    return dict.fromkeys(columns, rule)


MERGES: Final[dict[str, Merge]] = {
    "runs": Merge(
        ("run_uuid",),
        {
            **_all(of_higher_state, "state", "state_rank", "state_at", "state_seq", "ended_at"),
            **_all(kept, "job_namespace", "job_name"),
            **_all(least, "started_at", "first_event_at"),
            **_all(newest, "parent_run_uuid", "parent_job_namespace", "parent_job_name", "root_run_uuid"),
            **_all(greatest, "session_id", "execution_id", "last_event_at", "last_seq"),
        },
    ),
    "jobs": Merge(
        ("namespace", "name"),
        {
            **_all(newest, "job_type", "integration"),
            **_all(of_later_event, "latest_run_uuid"),
            **_all(least, "first_seq"),
            **_all(greatest, "last_event_at", "last_seq"),
        },
    ),
    "datasets": Merge(
        ("namespace", "name"), {**_all(least, "first_seq"), **_all(greatest, "last_event_at", "last_seq")}
    ),
    "run_io": Merge(
        ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"),
        _all(greatest, "job_namespace", "job_name", "session_id", "last_seq"),
    ),
    "job_edges": Merge(
        ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"),
        {**_all(of_last, "last_run_uuid"), **_all(least, "first_seq"), **_all(greatest, "last_event_at", "last_seq")},
    ),
    "statements": Merge(
        ("author", "dataset_namespace", "dataset_name", "dataset_version"),
        _all(of_last_said, "event_time", "run_uuid", "job_namespace", "job_name", "session_id", "edge_set", "seq"),
    ),
    # Named by its content: what is there is the same.
    "edge_sets": Merge(("edge_set", "ordinal")),
    "cell_executions": Merge(
        ("session_id", "execution_id"),
        {
            **_all(greatest, "notebook", "cell_id", "cell_name", "cell_index", "cell_source"),
            **_all(of_stronger_end, "state"),
            **_all(least, "started_at", "first_seq"),
            **_all(greatest, "start_memory_mb", "end_memory_mb", "duration_ms"),
            **_all(greatest, "error_type", "error_message", "traceback"),
            **_all(greatest, "ended_at", "last_seq"),
        },
    ),
    "operations": Merge(
        ("session_id", "operation_id"),
        {
            **_all(of_last, "run_uuid", "execution_id", "cell_id", "cell_name", "notebook"),
            **_all(of_last, "operation_type", "operation_method", "operation_code", "line", "end_line", "count"),
            **_all(of_last, "inputs", "outputs", "event_time", "overhead_ms", "duration_ms", "df_size_mb"),
            **_all(greatest, "last_seq"),
        },
    ),
}
