"""Merge rules of the index tables, compiled to upserts. Batches may arrive twice, or late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from clew.events.facets import FacetOrder

Rule = Callable[[str], str]


def first_by(seq: str) -> Rule:
    """Value with the smallest deciding position."""
    is_earlier = f"existing.{seq} is null or excluded.{seq} < existing.{seq}"
    return lambda column: f"case when {is_earlier} then excluded.{column} else existing.{column} end"


@dataclass(frozen=True)
class LastBy:
    """Value with the greatest deciding position; a null replaces an earlier value, too."""

    seq: str
    is_by_time: bool = False

    def __call__(self, column: str) -> str:
        """Return the SQL expression of the merged value."""
        precedence = _time_and_seq if self.is_by_time else str
        incoming, current = precedence(f"excluded.{self.seq}"), precedence(f"existing.{self.seq}")
        is_later = f"existing.{self.seq} is null or {incoming} >= {current}"
        return f"case when {is_later} then excluded.{column} else existing.{column} end"


def _time_and_seq(seq: str) -> str:
    return f"((select event_times.event_time from event_times where event_times.seq = {seq}), {seq})"  # noqa: S608


def latest_by(time: str, seq: str) -> Rule:
    """Value with the latest deciding event time, then position."""
    later = f"existing.{time} is null or (excluded.{time}, excluded.{seq}) >= (existing.{time}, existing.{seq})"
    return lambda column: f"case when {later} then excluded.{column} else existing.{column} end"


def last_received(column: str) -> str:
    """Value of the row received last, even if it is null."""
    return f"case when excluded.last_seq >= existing.last_seq then excluded.{column} else existing.{column} end"


def recompute(_: str) -> str:
    """Set to null; recomputed after the merge."""
    return "null"


def min_of(column: str) -> str:
    """Minimum, ignoring null."""
    return f"min(coalesce(existing.{column}, excluded.{column}), coalesce(excluded.{column}, existing.{column}))"


def max_of(column: str) -> str:
    """Maximum, ignoring null."""
    return f"max(coalesce(existing.{column}, excluded.{column}), coalesce(excluded.{column}, existing.{column}))"


def max_run_state(column: str) -> str:
    """Value of the row with the greatest state rank, then event time, then position: a terminal state is sticky."""
    rank = "(existing.state_rank, coalesce(existing.state_at, 0), existing.state_seq)"
    incoming = "(excluded.state_rank, coalesce(excluded.state_at, 0), excluded.state_seq)"
    return f"case when {incoming} >= {rank} then excluded.{column} else existing.{column} end"


def max_cell_state(column: str) -> str:
    """Greatest of running, completed, stopped and failed."""
    is_stronger = f"{_cell_state_rank(f'excluded.{column}')} > {_cell_state_rank(f'existing.{column}')}"
    return f"case when {is_stronger} then excluded.{column} else existing.{column} end"


def _cell_state_rank(column: str) -> str:
    return f"case {column} when 'failed' then 3 when 'stopped' then 2 when 'completed' then 1 else 0 end"


@dataclass(frozen=True)
class MergeSpec:
    """Key of a table, and the merge rule of each other column."""

    key: tuple[str, ...]
    columns: Mapping[str, Rule] = field(default_factory=dict)
    # Flag of implied rows: a row without the flag replaces one with it as a whole.
    implied_flag: str | None = None

    def upsert(self, table: str, names: Sequence[str], source: str | None = None) -> str:
        """Return the upsert of one row, with values in the order of `names`, or of all rows of another table."""
        sets = ", ".join(f'"{column}" = {self._merge_expression(column)}' for column in self.columns)
        columns, key = (", ".join(f'"{name}"' for name in group) for group in (names, self.key))
        rows = f"values ({', '.join('?' * len(names))})" if source is None else f"select {columns} from {source}"  # noqa: S608
        conflict = f"update set {sets}" if sets else "nothing"
        if self.implied_flag is not None:
            conflict += f" where excluded.{self.implied_flag} <= existing.{self.implied_flag}"
        return f"insert into {table} as existing ({columns}) {rows} on conflict ({key}) do {conflict}"

    def _merge_expression(self, column: str) -> str:
        expression = self.columns[column](column)
        if self.implied_flag is None:
            return expression
        flag = self.implied_flag
        return f"case when excluded.{flag} < existing.{flag} then excluded.{column} else {expression} end"


def _all(rule: Rule, *columns: str) -> dict[str, Rule]:
    return dict.fromkeys(columns, rule)


MERGE_SPECS: Final[dict[str, MergeSpec]] = {
    "run_events": MergeSpec(("event_time", "seq")),
    "runs": MergeSpec(
        ("run_uuid",),
        {
            **_all(max_run_state, "state", "state_rank", "state_at", "state_seq", "ended_at"),
            **_all(first_by("job_seq"), "job_namespace", "job_name", "job_seq"),
            **_all(min_of, "started_at", "first_event_at"),
            **_all(LastBy("parent_seq"), "parent_run_uuid", "parent_job_namespace", "parent_job_name"),
            **_all(LastBy("parent_seq"), "root_run_uuid", "root_job_namespace", "root_job_name", "parent_seq"),
            **_all(LastBy("nominal_seq"), "nominal_start_at", "nominal_end_at", "nominal_seq"),
            **_all(LastBy("error_seq"), "error_message", "error_language", "error_seq"),
            **_all(LastBy("source_code_location_seq"), "source_code_location", "source_code_location_seq"),
            **_all(max_of, "session_id", "execution_id", "last_event_at", "last_seq"),
            **_all(recompute, "job_version"),
        },
    ),
    "jobs": MergeSpec(
        ("namespace", "name"),
        {
            **_all(LastBy("type_seq"), "job_type", "integration", "processing_type", "type_seq"),
            **_all(LastBy("description_seq"), "description", "description_seq"),
            **_all(latest_by("latest_run_at", "latest_run_seq"), "latest_run_uuid", "latest_run_at", "latest_run_seq"),
            **_all(min_of, "first_event_at", "first_seq"),
            **_all(max_of, "last_event_at", "last_seq"),
        },
    ),
    "referenced_runs": MergeSpec(
        ("run_uuid",),
        {**_all(first_by("job_seq"), "job_namespace", "job_name", "job_seq"), **_all(max_of, "last_seq")},
    ),
    "referenced_jobs": MergeSpec(("namespace", "name"), {**_all(min_of, "first_seq"), **_all(max_of, "last_seq")}),
    # The version is a hash of the content: only the times differ.
    "job_declarations": MergeSpec(
        ("job_namespace", "job_name", "version"),
        {
            **_all(latest_by("declared_at", "declared_seq"), "declared_at", "declared_seq"),
            **_all(min_of, "created_at", "first_seq"),
            **_all(max_of, "last_seq"),
        },
    ),
    "schemas": MergeSpec(("schema_id",)),
    "dataset_declarations": MergeSpec(
        ("dataset_namespace", "dataset_name", "schema_id", "lifecycle_state"),
        {**_all(last_received, "version"), **_all(min_of, "created_at"), **_all(max_of, "last_seq")},
    ),
    "datasets": MergeSpec(
        ("namespace", "name"),
        {
            **_all(min_of, "first_event_at", "first_seq"),
            **_all(max_of, "last_event_at", "last_seq"),
            **_all(latest_by("written_at", "written_seq"), "written_at", "written_seq"),
            **_all(latest_by("lifecycle_at", "lifecycle_seq"), "lifecycle_state", "lifecycle_at", "lifecycle_seq"),
            **_all(latest_by("lifecycle_at", "lifecycle_seq"), "renamed_from_namespace", "renamed_from_name"),
        },
    ),
    "renames": MergeSpec(
        ("namespace", "name"),
        _all(latest_by("renamed_at", "last_seq"), "to_namespace", "to_name", "renamed_at", "last_seq"),
    ),
    "symlinks": MergeSpec(("namespace", "name"), _all(LastBy("last_seq"), "identifiers", "last_seq")),
    "run_io": MergeSpec(
        ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"),
        {
            **_all(max_of, "job_namespace", "job_name", "session_id", "last_seq"),
            **_all(LastBy("schema_seq"), "schema_id", "schema_seq"),
            **_all(LastBy("row_count_seq"), "row_count", "row_count_seq"),
            **_all(min_of, "is_implied"),
        },
        implied_flag="is_implied",
    ),
    "reported_job_edges": MergeSpec(
        ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"),
        {
            **_all(last_received, "last_run_uuid"),
            **_all(min_of, "first_event_at", "first_seq", "is_implied"),
            **_all(max_of, "last_event_at", "last_seq", "is_observed"),
            **_all(LastBy("declared_seq"), "declared_seq"),
            # Recomputed after the merge.
            **_all(min_of, "is_superseded"),
        },
    ),
    "lineage_assertions": MergeSpec(
        ("asserted_by", "dataset_namespace", "dataset_name", "dataset_version", "origin"),
        _all(LastBy("seq"), "event_time", "run_uuid", "job_namespace", "job_name", "session_id", "edge_set_id", "seq"),
    ),
    "job_dependency_assertions": MergeSpec(
        ("asserted_by", "job_namespace", "job_name"),
        _all(LastBy("seq"), "event_time", "run_uuid", "upstream", "seq"),
    ),
    "static_lineage": MergeSpec(("asserted_by",), _all(LastBy("seq"), "seq")),
    # The id is a hash of the content: existing rows are equal.
    "edge_sets": MergeSpec(("edge_set_id", "edge_position")),
    "cell_executions": MergeSpec(
        ("session_id", "execution_id"),
        {
            **_all(max_of, "notebook", "cell_id", "cell_name", "cell_index", "cell_source"),
            **_all(max_cell_state, "state"),
            **_all(min_of, "started_at", "first_seq"),
            **_all(max_of, "start_memory_mb", "end_memory_mb", "duration_ms"),
            **_all(max_of, "error_type", "error_message", "traceback"),
            **_all(max_of, "ended_at", "last_seq"),
        },
    ),
    "operations": MergeSpec(
        ("session_id", "operation_id"),
        {
            **_all(last_received, "run_uuid", "execution_id", "cell_id", "cell_name", "notebook"),
            **_all(last_received, "operation_type", "operation_method", "operation_code", "line", "end_line", "count"),
            **_all(last_received, "inputs", "outputs", "event_time", "overhead_ms", "duration_ms", "df_size_mb"),
            **_all(max_of, "last_seq"),
        },
    ),
}


def merge_specs(order: FacetOrder) -> Mapping[str, MergeSpec]:
    """Return the merge rules for a facet order."""
    if order is FacetOrder.RECEIVED:
        return MERGE_SPECS
    # `event_times` first: the rules of the other tables read it.
    return {"event_times": MergeSpec(("seq",)), **{name: _by_time(spec) for name, spec in MERGE_SPECS.items()}}


def _by_time(spec: MergeSpec) -> MergeSpec:
    rules = {
        column: replace(rule, is_by_time=True) if isinstance(rule, LastBy) else rule
        for column, rule in spec.columns.items()
    }
    return replace(spec, columns=rules)
