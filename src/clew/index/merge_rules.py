"""Merge specifications: how rows of one key are combined. The only definition of these rules.

Compiled to SQL upserts (`MergeSpec.upsert`), to a Python function (`compile_reducer`, on the workers) and to a Spark
aggregation (`pipeline/derive/merge.py`). All rules are associative, commutative and idempotent: batches may arrive in
any order, late or twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args, get_type_hints

from clew.index.changes import TableRow


@dataclass(frozen=True)
class ValueBy:
    """Values of the row with the greatest or smallest order.

    A row whose last order column is null has no values. A null in another order column is the smallest value.
    """

    pick: Literal["max", "min"]
    order: tuple[str, ...]


# "recomputed" values are set to null, and computed after the merge; "replaced" values are merged by the caller.
Rule = ValueBy | Literal["minimum", "maximum", "recomputed", "replaced"]


def max_by(*order: str) -> ValueBy:
    """Values of the row with the greatest order; with equal order, of the row that is merged later."""
    return ValueBy("max", order)


def min_by(*order: str) -> ValueBy:
    """Values of the row with the smallest order; with equal order, of the row that is merged earlier."""
    return ValueBy("min", order)


@dataclass(frozen=True)
class MergeSpec:
    """Key of a table, and the rule of each group of other columns; columns without a rule depend on the key only."""

    key: tuple[str, ...]
    groups: Mapping[tuple[str, ...], Rule] = field(default_factory=dict)
    # Flag of implied rows: a row without the flag replaces one with it as a whole.
    implied_flag: str | None = None

    def upsert(self, table: str, names: Sequence[str], source: str | None = None) -> str:
        """Return the upsert of one row, with values in the order of `names`, or of all rows of another table."""
        sets = [
            f'"{column}" = {value}' for columns, rule in self.groups.items() for column, value in _sql(columns, rule)
        ]
        columns, key = (", ".join(f'"{name}"' for name in group) for group in (names, self.key))
        rows = f"values ({', '.join('?' * len(names))})" if source is None else f"select {columns} from {source}"  # noqa: S608
        if self.implied_flag is not None:
            sets = [self._replace_implied(assignment) for assignment in sets]
        conflict = f"update set {', '.join(sets)}" if sets else "nothing"
        if self.implied_flag is not None:
            conflict += f" where excluded.{self.implied_flag} <= existing.{self.implied_flag}"
        return f"insert into {table} as existing ({columns}) {rows} on conflict ({key}) do {conflict}"

    def _replace_implied(self, assignment: str) -> str:
        column, _, value = assignment.partition(" = ")
        flag = self.implied_flag
        return f"{column} = case when excluded.{flag} < existing.{flag} then excluded.{column} else {value} end"


def _sql(columns: tuple[str, ...], rule: Rule) -> list[tuple[str, str]]:
    """Return the columns with the SQL expressions of their merged values."""
    if isinstance(rule, ValueBy):
        condition = _wins_in_sql(rule)
        return [
            (column, f'case when {condition} then excluded."{column}" else existing."{column}" end')
            for column in columns
        ]
    if rule in ("recomputed", "replaced"):
        return [(column, "null" if rule == "recomputed" else f'excluded."{column}"') for column in columns]
    function = "min" if rule == "minimum" else "max"
    values = "coalesce(existing.{0}, excluded.{0}), coalesce(excluded.{0}, existing.{0})"
    return [(column, f"{function}({values.format(column)})") for column in columns]


def _wins_in_sql(rule: ValueBy) -> str:
    *leading, last = rule.order
    incoming, current = (
        ", ".join([*(f"coalesce({row}.{column}, 0)" for column in leading), f"{row}.{last}"])
        for row in ("excluded", "existing")
    )
    comparison = ">=" if rule.pick == "max" else "<"
    return f"existing.{last} is null or ({incoming}) {comparison} ({current})"


# Merges a row into a dictionary of rows by key, which then owns the row.
Reducer = Callable[[dict[Any, Any], Any], None]


def compile_reducer(spec: MergeSpec, row_type: type[TableRow]) -> Reducer:
    """Compile the function that merges rows of a table."""
    optional = {name for name, hint in get_type_hints(row_type).items() if type(None) in get_args(hint)}
    key = ", ".join(f"row.{column}" for column in spec.key)
    lines = [
        "def reduce(rows, row):",
        f"    key = {key if len(spec.key) == 1 else f'({key})'}",
        "    existing = rows.setdefault(key, row)",
        "    if existing is row:",
        "        return",
    ]
    if spec.implied_flag is not None:
        lines += [
            f"    if row.{spec.implied_flag} != existing.{spec.implied_flag}:",
            f"        if not row.{spec.implied_flag}:",
            "            rows[key] = row",
            "        return",
        ]
    # Minima and maxima last: they may change an order column.
    for columns, rule in sorted(spec.groups.items(), key=lambda group: not isinstance(group[1], ValueBy)):
        lines += _python(columns, rule, optional)
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)  # noqa: S102  # generated from the specification only
    reducer: Reducer = namespace["reduce"]
    return reducer


def _python(columns: tuple[str, ...], rule: Rule, optional: set[str]) -> list[str]:
    """Return the statements that merge `row` into `existing`."""
    if rule in ("recomputed", "replaced"):
        return []
    if isinstance(rule, ValueBy):
        assignments = [f"        existing.{column} = row.{column}" for column in columns]
        return [f"    if {_wins_in_python(rule, optional)}:", *assignments]
    comparison = "<" if rule == "minimum" else ">"
    lines = []
    for column in columns:
        condition = f"row.{column} {comparison} existing.{column}"
        if column in optional:
            condition = f"row.{column} is not None and (existing.{column} is None or {condition})"
        lines += [f"    if {condition}:", f"        existing.{column} = row.{column}"]
    return lines


def _wins_in_python(rule: ValueBy, optional: set[str]) -> str:
    *leading, last = rule.order
    incoming, current = (
        ", ".join([*(f"{row}.{column} or 0" for column in leading), f"{row}.{last}"]) for row in ("row", "existing")
    )
    if leading:
        incoming, current = f"({incoming})", f"({current})"
    comparison = f"{incoming} {'>=' if rule.pick == 'max' else '<'} {current}"
    if last not in optional:
        return comparison
    return f"row.{last} is not None and (existing.{last} is None or {comparison})"


# `…_seq` is the position of the event that decided the values before it. `…_order_time` is its event time if facets are
# ordered by event time, and null if they are ordered by arrival.
MERGE_SPECS: Final[dict[str, MergeSpec]] = {
    "run_events": MergeSpec(("event_time", "seq")),
    "runs": MergeSpec(
        ("run_uuid",),
        {
            # A terminal state is final: the rank decides first.
            ("state", "state_rank", "state_at", "state_seq", "ended_at"): max_by("state_rank", "state_at", "state_seq"),
            ("job_namespace", "job_name", "job_seq"): min_by("job_seq"),
            ("started_at", "first_event_at"): "minimum",
            (
                *("parent_run_uuid", "parent_job_namespace", "parent_job_name"),
                *("root_run_uuid", "root_job_namespace", "root_job_name", "parent_order_time", "parent_seq"),
            ): max_by("parent_order_time", "parent_seq"),
            ("nominal_start_at", "nominal_end_at", "nominal_order_time", "nominal_seq"): max_by(
                "nominal_order_time", "nominal_seq"
            ),
            ("error_message", "error_language", "error_order_time", "error_seq"): max_by(
                "error_order_time", "error_seq"
            ),
            ("source_code_location", "source_code_location_order_time", "source_code_location_seq"): max_by(
                "source_code_location_order_time", "source_code_location_seq"
            ),
            ("session_id", "execution_id", "last_event_at", "last_seq", "has_lineage_entries"): "maximum",
            ("job_version",): "recomputed",
        },
    ),
    "jobs": MergeSpec(
        ("namespace", "name"),
        {
            ("job_type", "integration", "processing_type", "type_order_time", "type_seq"): max_by(
                "type_order_time", "type_seq"
            ),
            ("description", "description_order_time", "description_seq"): max_by(
                "description_order_time", "description_seq"
            ),
            ("latest_run_uuid", "latest_run_at", "latest_run_seq"): max_by("latest_run_at", "latest_run_seq"),
            ("parent_job_namespace", "parent_job_name", "parent_order_time", "parent_seq"): max_by(
                "parent_order_time", "parent_seq"
            ),
            ("first_event_at", "first_seq"): "minimum",
            ("last_event_at", "last_seq"): "maximum",
        },
    ),
    "referenced_runs": MergeSpec(
        ("run_uuid",),
        {
            ("job_namespace", "job_name", "job_seq"): min_by("job_seq"),
            ("first_event_at",): "minimum",
            ("last_event_at", "last_seq"): "maximum",
        },
    ),
    "referenced_jobs": MergeSpec(
        ("namespace", "name"),
        {("first_event_at", "first_seq"): "minimum", ("last_event_at", "last_seq"): "maximum"},
    ),
    # The version is a hash of the content: only the times differ.
    "job_declarations": MergeSpec(
        ("job_namespace", "job_name", "version"),
        {
            ("declared_at", "declared_seq"): max_by("declared_at", "declared_seq"),
            ("created_at", "first_seq"): "minimum",
            ("last_seq",): "maximum",
        },
    ),
    "schemas": MergeSpec(("schema_id",)),
    "dataset_declarations": MergeSpec(
        ("dataset_namespace", "dataset_name", "schema_id", "lifecycle_state"),
        {("version", "last_seq"): max_by("last_seq"), ("created_at",): "minimum"},
    ),
    "datasets": MergeSpec(
        ("namespace", "name"),
        {
            ("first_event_at", "first_seq"): "minimum",
            ("last_event_at", "last_seq"): "maximum",
            ("written_at", "written_seq"): max_by("written_at", "written_seq"),
            ("current_version", "current_version_seq"): max_by("current_version_seq", "current_version"),
            ("description", "description_order_time", "description_seq"): max_by(
                "description_order_time", "description_seq"
            ),
            (
                *("lifecycle_state", "renamed_from_namespace", "renamed_from_name"),
                *("lifecycle_at", "lifecycle_seq"),
            ): max_by("lifecycle_at", "lifecycle_seq"),
        },
    ),
    "renames": MergeSpec(
        ("namespace", "name"), {("to_namespace", "to_name", "renamed_at", "last_seq"): max_by("renamed_at", "last_seq")}
    ),
    "symlinks": MergeSpec(
        ("namespace", "name"), {("identifiers", "order_time", "last_seq"): max_by("order_time", "last_seq")}
    ),
    "run_io": MergeSpec(
        ("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"),
        {
            ("job_namespace", "job_name", "session_id", "last_seq", "last_event_at"): "maximum",
            ("first_seq",): "minimum",
            ("schema_id", "schema_order_time", "schema_seq"): max_by("schema_order_time", "schema_seq"),
            ("row_count", "row_count_order_time", "row_count_seq"): max_by("row_count_order_time", "row_count_seq"),
            ("is_implied",): "minimum",
        },
        implied_flag="is_implied",
    ),
    "reported_job_edges": MergeSpec(
        ("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"),
        {
            ("last_run_uuid",): max_by("last_seq"),
            ("first_event_at", "first_seq", "is_implied"): "minimum",
            ("last_event_at", "last_seq", "is_observed"): "maximum",
            ("declared_at", "declared_order_time", "declared_seq", "is_listed"): max_by(
                "declared_order_time", "declared_seq", "is_listed"
            ),
            # Computed again after the merge.
            ("is_superseded",): "minimum",
        },
    ),
    "lineage_assertions": MergeSpec(
        ("asserted_by", "dataset_namespace", "dataset_name", "dataset_version", "origin"),
        {
            (
                *("event_time", "run_uuid", "job_namespace", "job_name", "session_id"),
                *("edge_set_id", "order_time", "seq"),
            ): max_by("order_time", "seq")
        },
    ),
    "job_dependency_assertions": MergeSpec(
        ("asserted_by", "job_namespace", "job_name"),
        {("event_time", "run_uuid", "upstream", "order_time", "seq"): max_by("order_time", "seq")},
    ),
    "static_lineage": MergeSpec(("asserted_by",), {("order_time", "seq", "has_entries"): max_by("order_time", "seq")}),
    "quality_assertions": MergeSpec(
        ("asserted_by", "dataset_namespace", "dataset_name", "facet_type"),
        {
            (
                *("event_time", "run_uuid", "job_namespace", "job_name", "dataset_version"),
                *("assertions", "order_time", "seq"),
            ): max_by("order_time", "seq")
        },
    ),
    # The id is a hash of the content: existing rows are equal.
    "edge_sets": MergeSpec(("edge_set_id", "edge_position")),
    "cell_executions": MergeSpec(
        ("session_id", "execution_id"),
        {
            ("notebook", "cell_id", "cell_name", "cell_index", "cell_source"): "maximum",
            ("state", "state_rank"): max_by("state_rank"),
            ("started_at", "first_seq"): "minimum",
            ("start_memory_mb", "end_memory_mb", "duration_ms"): "maximum",
            ("error_type", "error_message", "traceback"): "maximum",
            ("ended_at", "last_seq"): "maximum",
        },
    ),
    "operations": MergeSpec(
        ("session_id", "operation_id"),
        {
            (
                *("run_uuid", "execution_id", "cell_id", "cell_name", "notebook"),
                *("operation_type", "operation_method", "operation_code", "line", "end_line", "count"),
                *("inputs", "outputs", "event_time", "overhead_ms", "duration_ms", "df_size_mb", "last_seq"),
            ): max_by("last_seq")
        },
    ),
}
