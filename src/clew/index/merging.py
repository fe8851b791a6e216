"""How a row of a batch joins the row that is there. The merge is the upsert: batches may come twice, or late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from clew.events.facet_order import FacetOrder

Rule = Callable[[str], str]


def of_first_in(seq: str) -> Rule:
    """The value said first, by the position that decided it."""
    is_earlier = f"known.{seq} is null or excluded.{seq} < known.{seq}"
    return lambda column: f"case when {is_earlier} then excluded.{column} else known.{column} end"


@dataclass(frozen=True)
class OfLastIn:
    """The value said last, by the position that decided it: whole, so that a null replaces what was said before."""

    seq: str
    is_by_time: bool = False

    def __call__(self, column: str) -> str:
        """The value of a column after the merge."""
        turn = _moment_and_position if self.is_by_time else str
        is_later = f"known.{self.seq} is null or {turn(f'excluded.{self.seq}')} >= {turn(f'known.{self.seq}')}"
        return f"case when {is_later} then excluded.{column} else known.{column} end"


def _moment_and_position(seq: str) -> str:
    return f"((select at from moments where position = {seq}), {seq})"  # noqa: S608


def of_latest_in(moment: str, seq: str) -> Rule:
    """The value of the event that is the latest by its own time, by the moment and position that decided it."""
    later = f"known.{moment} is null or (excluded.{moment}, excluded.{seq}) >= (known.{moment}, known.{seq})"
    return lambda column: f"case when {later} then excluded.{column} else known.{column} end"


def of_last(column: str) -> str:
    """The value of the row received last, even if it is null: rows that are whole are not mixed."""
    return f"case when excluded.last_seq >= known.last_seq then excluded.{column} else known.{column} end"


def settled_afterwards(_: str) -> str:
    """What follows from all that is known of a row that others join is found when all have joined it."""
    return "null"


def least(column: str) -> str:
    """The smaller of both, or the one that is known."""
    return f"min(coalesce(known.{column}, excluded.{column}), coalesce(excluded.{column}, known.{column}))"


def greatest(column: str) -> str:
    """The larger of both, or the one that is known."""
    return f"max(coalesce(known.{column}, excluded.{column}), coalesce(excluded.{column}, known.{column}))"


def of_higher_state(column: str) -> str:
    """A terminal state is sticky: by rank, then by event time, then by arrival."""
    rank = "(known.state_rank, coalesce(known.state_at, 0), known.state_seq)"
    incoming = "(excluded.state_rank, coalesce(excluded.state_at, 0), excluded.state_seq)"
    return f"case when {incoming} >= {rank} then excluded.{column} else known.{column} end"


def of_stronger_end(column: str) -> str:
    """A cell that has ended does not run again, and one that failed has not completed."""
    is_stronger = f"{_end_rank(f'excluded.{column}')} > {_end_rank(f'known.{column}')}"
    return f"case when {is_stronger} then excluded.{column} else known.{column} end"


def _end_rank(column: str) -> str:
    return f"case {column} when 'failed' then 3 when 'stopped' then 2 when 'completed' then 1 else 0 end"


@dataclass(frozen=True)
class Merge:
    """A table of the index: its key, and how each other column is merged."""

    key: tuple[str, ...]
    columns: Mapping[str, Rule] = field(default_factory=dict)
    # The column that marks a row which gives way, whole, to one that is not so marked.
    provisional: str | None = None

    def upsert(self, table: str, names: Sequence[str], source: str | None = None) -> str:
        """The statement that takes one row, its values in the order of `names`; or all rows of another table."""
        sets = ", ".join(f'"{column}" = {self._merged(column)}' for column in self.columns)
        columns, key = (", ".join(f'"{name}"' for name in some) for some in (names, self.key))
        rows = f"values ({', '.join('?' * len(names))})" if source is None else f"select {columns} from {source}"  # noqa: S608
        conflict = f"update set {sets}" if sets else "nothing"
        if self.provisional is not None:
            conflict += f" where excluded.{self.provisional} <= known.{self.provisional}"
        return f"insert into {table} as known ({columns}) {rows} on conflict ({key}) do {conflict}"

    def _merged(self, column: str) -> str:
        merged = self.columns[column](column)
        if self.provisional is None:
            return merged
        mark = self.provisional
        return f"case when excluded.{mark} < known.{mark} then excluded.{column} else {merged} end"


def _all(rule: Rule, *columns: str) -> dict[str, Rule]:
    return dict.fromkeys(columns, rule)


MERGES: Final[dict[str, Merge]] = {
    "run_events": Merge(("at", "seq")),
    "runs": Merge(
        ("run_uuid",),
        {
            **_all(of_higher_state, "state", "state_rank", "state_at", "state_seq", "ended_at"),
            **_all(of_first_in("job_seq"), "job_namespace", "job_name", "job_seq"),
            **_all(least, "started_at", "first_event_at"),
            **_all(OfLastIn("parent_seq"), "parent_run_uuid", "parent_job_namespace", "parent_job_name"),
            **_all(OfLastIn("parent_seq"), "root_run_uuid", "root_job_namespace", "root_job_name", "parent_seq"),
            **_all(OfLastIn("nominal_seq"), "nominal_start_at", "nominal_end_at", "nominal_seq"),
            **_all(OfLastIn("error_seq"), "error_message", "error_language", "error_seq"),
            **_all(OfLastIn("location_seq"), "location", "location_seq"),
            **_all(greatest, "session_id", "execution_id", "last_event_at", "last_seq"),
            **_all(settled_afterwards, "job_version"),
        },
    ),
    "jobs": Merge(
        ("namespace", "name"),
        {
            **_all(OfLastIn("type_seq"), "job_type", "integration", "processing_type", "type_seq"),
            **_all(OfLastIn("description_seq"), "description", "description_seq"),
            **_all(
                of_latest_in("latest_run_at", "latest_run_seq"), "latest_run_uuid", "latest_run_at", "latest_run_seq"
            ),
            **_all(least, "first_event_at", "first_seq"),
            **_all(greatest, "last_event_at", "last_seq"),
        },
    ),
    "mentioned_runs": Merge(
        ("run_uuid",),
        {**_all(of_first_in("job_seq"), "job_namespace", "job_name", "job_seq"), **_all(greatest, "last_seq")},
    ),
    "mentioned_jobs": Merge(("namespace", "name"), {**_all(least, "first_seq"), **_all(greatest, "last_seq")}),
    # Named by its content: what is there is the same, but for when it was said.
    "job_declarations": Merge(
        ("job_namespace", "job_name", "version"),
        {
            **_all(of_latest_in("declared_at", "declared_seq"), "declared_at", "declared_seq"),
            **_all(least, "created_at", "first_seq"),
            **_all(greatest, "last_seq"),
        },
    ),
    "schemas": Merge(("schema_id",)),
    "dataset_declarations": Merge(
        ("dataset_namespace", "dataset_name", "schema_id", "lifecycle_state"),
        {**_all(of_last, "version"), **_all(least, "created_at"), **_all(greatest, "last_seq")},
    ),
    "datasets": Merge(
        ("namespace", "name"),
        {
            **_all(least, "first_event_at", "first_seq"),
            **_all(greatest, "last_event_at", "last_seq"),
            **_all(of_latest_in("written_at", "written_seq"), "written_at", "written_seq"),
            **_all(of_latest_in("lifecycle_at", "lifecycle_seq"), "lifecycle_state", "lifecycle_at", "lifecycle_seq"),
            **_all(of_latest_in("lifecycle_at", "lifecycle_seq"), "renamed_from_namespace", "renamed_from_name"),
        },
    ),
    "renames": Merge(
        ("namespace", "name"),
        _all(of_latest_in("renamed_at", "last_seq"), "to_namespace", "to_name", "renamed_at", "last_seq"),
    ),
    "symlinks": Merge(("namespace", "name"), _all(OfLastIn("last_seq"), "identifiers", "last_seq")),
    "run_io": Merge(
        ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"),
        {
            **_all(greatest, "job_namespace", "job_name", "session_id", "last_seq"),
            **_all(OfLastIn("schema_seq"), "schema_id", "schema_seq"),
            **_all(OfLastIn("row_count_seq"), "row_count", "row_count_seq"),
            **_all(least, "is_implied"),
        },
        provisional="is_implied",
    ),
    "said_job_edges": Merge(
        ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"),
        {
            **_all(of_last, "last_run_uuid"),
            **_all(least, "first_event_at", "first_seq", "is_implied"),
            **_all(greatest, "last_event_at", "last_seq", "is_lasting"),
            **_all(OfLastIn("declared_seq"), "declared_seq"),
            # Whether it is over although it was said again is settled afterwards.
            **_all(least, "is_over"),
        },
    ),
    "statements": Merge(
        ("author", "dataset_namespace", "dataset_name", "dataset_version", "origin"),
        _all(OfLastIn("seq"), "event_time", "run_uuid", "job_namespace", "job_name", "session_id", "edge_set", "seq"),
    ),
    "links": Merge(
        ("author", "job_namespace", "job_name"),
        _all(OfLastIn("seq"), "event_time", "run_uuid", "upstream", "seq"),
    ),
    "lineage_declarations": Merge(("author",), _all(OfLastIn("seq"), "seq")),
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


def merges(order: FacetOrder) -> Mapping[str, Merge]:
    """The tables of an index in which facets count in that order."""
    if order is FacetOrder.RECEIVED:
        return MERGES
    # The moments first: the others are compared by them.
    return {"moments": Merge(("position",)), **{name: _by_time(merge) for name, merge in MERGES.items()}}


def _by_time(merge: Merge) -> Merge:
    rules = {
        column: replace(rule, is_by_time=True) if isinstance(rule, OfLastIn) else rule
        for column, rule in merge.columns.items()
    }
    return replace(merge, columns=rules)
