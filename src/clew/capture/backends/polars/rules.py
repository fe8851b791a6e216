"""Rules for methods of polars frames: the edges of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from clew.capture.backends.polars.expressions import (
    built_struct,
    merged_provenance,
    output_columns,
    output_provenance,
    series_provenance,
    struct_field,
)
from clew.capture.backends.sql_lineage import SourceDatabase
from clew.capture.backends.sql_query import Query
from clew.capture.lineage.datasets import ExternalDataset
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import ExplicitEdges, IdentityEdges, OperationType
from clew.capture.lineage.provenance import Provenance, apply_direct, as_indirect, coalesced, compose, union
from clew.capture.lineage.transformations import (
    AGGREGATION,
    FILTER,
    GROUP_BY,
    IDENTITY,
    INFERRED,
    JOIN,
    OPAQUE,
    SORT,
    TRANSFORMATION,
)


class OperationLineage(NamedTuple):
    """Lineage of an operation: type, edges of its columns, and row provenance."""

    kind: OperationType
    edges: IdentityEdges | ExplicitEdges
    rows: Provenance


class MethodCall(NamedTuple):
    """A method call: source versions, arguments, and labels of the result."""

    name: str
    sources: tuple[FrameVersion, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    labels: list[str]
    # Schema of the receiver, if known.
    schema: Any
    # Fields of the structs that the call builds, by column.
    structs: dict[str, dict[str, Provenance]]

    @property
    def receiver(self) -> FrameVersion:
        """The frame on which the method was called."""
        return self.sources[0]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument that was passed by position or by name."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if len(self.args) > position else default


Rule = Callable[[MethodCall], OperationLineage]


def as_list(value: Any) -> list[Any]:
    """Return one or several values as a list; None is an empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def flatten(values: Iterable[Any]) -> list[Any]:
    """Return the values, and the items of those that are lists."""
    return [item for value in values for item in as_list(value)]


def per_column_rule(step: int = IDENTITY, kind: OperationType = "selection") -> Rule:
    """Build a rule that applies one step to every column."""
    return lambda call: OperationLineage(kind, IdentityEdges(call.receiver, step), {})


def _computed_fields(call: MethodCall) -> dict[Any, Provenance]:
    """Return the output columns of positional and keyword expressions."""
    fields: dict[Any, Provenance] = {}
    for expression in flatten(call.args):
        for label, selected in output_columns(expression, call.receiver, call.labels, call.schema):
            fields[label] = output_provenance(expression, call.receiver, selected)
            call.structs[label] = built_struct(expression, call.receiver)
    fields.update({label: output_provenance(value, call.receiver, label) for label, value in call.kwargs.items()})
    call.structs.update({label: built_struct(value, call.receiver) for label, value in call.kwargs.items()})
    return fields


def trace_select(call: MethodCall) -> OperationLineage:
    """Trace frame.select(...)."""
    return OperationLineage("selection", ExplicitEdges(_computed_fields(call)), {})


def trace_with_columns(call: MethodCall) -> OperationLineage:
    """Trace frame.with_columns(...)."""
    return OperationLineage("assignment", IdentityEdges(call.receiver, IDENTITY, _computed_fields(call)), {})


def trace_filter(call: MethodCall) -> OperationLineage:
    """Trace frame.filter(predicates, column=value)."""
    named = union(*[call.receiver.field(name) for name in call.kwargs])
    rows = as_indirect(union(merged_provenance(flatten(call.args), call.receiver), named), FILTER)
    return OperationLineage("selection", IdentityEdges(call.receiver), rows)


def rows_by_columns_rule(position: int, name: str, use: int) -> Rule:
    """Build a rule for sorting or filtering rows by columns; by all columns if none are specified."""

    def rule(call: MethodCall) -> OperationLineage:
        argument = call.argument(position, name)
        more = call.args[position + 1 :] if name == "by" else ()
        expressions = flatten((argument, more)) if argument is not None else list(call.receiver.columns)
        rows = as_indirect(merged_provenance(expressions, call.receiver), use)
        return OperationLineage("sort" if use == SORT else "selection", IdentityEdges(call.receiver), rows)

    return rule


def trace_rename(call: MethodCall) -> OperationLineage:
    """Trace frame.rename(mapping): columns are matched by position."""
    pairs = zip(call.labels, call.receiver.columns, strict=False)
    return OperationLineage("transformation", ExplicitEdges({new: call.receiver.field(old) for new, old in pairs}), {})


def trace_explode(call: MethodCall) -> OperationLineage:
    """Trace frame.explode(columns)."""
    labels = flatten(call.args)
    exploded: dict[Any, Provenance] = {
        label: apply_direct(call.receiver.field(label), TRANSFORMATION) for label in labels if isinstance(label, str)
    }
    return OperationLineage("reshape", IdentityEdges(call.receiver, IDENTITY, exploded), {})


def trace_unpivot(call: MethodCall) -> OperationLineage:
    """Trace frame.unpivot(on, index=...): columns become rows."""
    index = as_list(call.kwargs.get("index"))
    on = as_list(call.argument(0, "on")) or [label for label in call.receiver.columns if label not in index]
    value_name = call.kwargs.get("value_name") or "value"
    fields: dict[Any, Provenance] = {label: call.receiver.field(label) for label in index}
    fields[value_name] = union(*[call.receiver.field(label) for label in on if isinstance(label, str)])
    return OperationLineage("reshape", ExplicitEdges(fields), {})


def trace_pivot(call: MethodCall) -> OperationLineage:
    """Trace frame.pivot(on, index=..., values=...): one column per value."""
    on, index = as_list(call.argument(0, "on")), as_list(call.kwargs.get("index"))
    values = as_list(call.kwargs.get("values"))
    aggregated = compose(merged_provenance(values, call.receiver), AGGREGATION)
    fields: dict[Any, Provenance] = {
        label: call.receiver.field(label) if label in index else aggregated for label in call.labels
    }
    return OperationLineage(
        "reshape", ExplicitEdges(fields), as_indirect(merged_provenance([*on, *index], call.receiver), GROUP_BY)
    )


def trace_agg(call: MethodCall) -> OperationLineage:
    """Trace frame.group_by(keys).agg(expressions); `args` are keys, expressions and named expressions."""
    keys, expressions, named = call.args
    fields: dict[Any, Provenance] = {}
    for key in keys:
        columns = output_columns(key, call.receiver, call.labels, call.schema)
        fields.update({label: output_provenance(key, call.receiver, selected) for label, selected in columns})
    for expression in expressions:
        for label, selected in output_columns(expression, call.receiver, call.labels, call.schema):
            # `pl.all()` excludes the keys.
            fields.setdefault(label, compose(output_provenance(expression, call.receiver, selected), AGGREGATION))
    fields.update(
        {label: compose(output_provenance(value, call.receiver, label), AGGREGATION) for label, value in named.items()}
    )
    return OperationLineage(
        "aggregation", ExplicitEdges(fields), as_indirect(merged_provenance(keys, call.receiver), GROUP_BY)
    )


def trace_group_head(call: MethodCall) -> OperationLineage:
    """Trace frame.group_by(keys).head(n): unchanged rows of each group."""
    return OperationLineage(
        "selection", IdentityEdges(call.receiver), as_indirect(merged_provenance(call.args[0], call.receiver), GROUP_BY)
    )


def trace_join_where(call: MethodCall) -> OperationLineage:
    """Trace frame.join_where(other, predicates): a join on conditions over columns of both frames."""
    left, right = call.sources[:2]
    suffix = call.kwargs.get("suffix", "_right")
    joined_version = FrameVersion.alias_of(None, call.labels, {})
    joined_version.overrides = {label: _joined_field(label, left, right, suffix) for label in call.labels}
    rows = as_indirect(merged_provenance(flatten(call.args[1:]), joined_version), JOIN)
    return OperationLineage("join", ExplicitEdges(joined_version.overrides), rows)


def trace_hstack(call: MethodCall) -> OperationLineage:
    """Trace frame.hstack(columns): columns are added unchanged."""
    columns = call.args[0] if call.args else call.kwargs.get("columns")
    fields: dict[Any, Provenance] = {}
    if len(call.sources) > 1:
        fields = {label: call.sources[1].field(label) for label in call.sources[1].columns}
    elif isinstance(columns, (list, tuple)):
        fields = {series.name: series_provenance(series) for series in columns}
    return OperationLineage("assignment", IdentityEdges(call.receiver, IDENTITY, fields), {})


def trace_unnest(call: MethodCall) -> OperationLineage:
    """Trace frame.unnest(columns): the fields of a struct become columns."""
    columns = [column for column in flatten(call.args) if isinstance(column, str)]
    unknown = compose(merged_provenance(flatten(call.args), call.receiver), TRANSFORMATION | INFERRED)
    unnested: dict[Any, Provenance] = {}
    for label in call.labels:
        if not call.receiver.has(label) or label in columns:
            known = [struct_field(call.receiver, column, label) for column in columns]
            unnested[label] = next((provenance for provenance in known if provenance is not None), unknown)
    return OperationLineage("transformation", IdentityEdges(call.receiver, IDENTITY, unnested), {})


def trace_insert_column(call: MethodCall) -> OperationLineage:
    """Trace frame.insert_column(index, column) and replace_column(index, column)."""
    column = call.argument(1, "column")
    label = output_columns(column, call.receiver, call.labels, call.schema)[0].label
    fields: dict[Any, Provenance] = {label: output_provenance(column, call.receiver, label)}
    return OperationLineage("assignment", IdentityEdges(call.receiver, IDENTITY, fields), {})


def trace_join(call: MethodCall) -> OperationLineage:
    """Trace frame.join(other, on=...), join_asof: the key comes from the preserved side."""
    left, right = call.sources[:2]
    how, suffix = call.argument(2, "how", "inner"), call.kwargs.get("suffix", "_right")
    left_keys, right_keys = (
        [key for name in ("on", side, "by", by_side) for key in as_list(_join_option(call, name))]
        for side, by_side in (("left_on", "by_left"), ("right_on", "by_right"))
    )
    rows = union(
        as_indirect(merged_provenance(left_keys, left), JOIN),
        as_indirect(merged_provenance(right_keys, right), JOIN),
    )
    fields: dict[Any, Provenance] = {label: _joined_field(label, left, right, suffix) for label in call.labels}
    if how in ("full", "outer") and call.kwargs.get("coalesce"):
        for left_key, right_key in zip(left_keys, right_keys, strict=False):
            fields[left_key] = coalesced(left.field(left_key), right.field(right_key))
    elif how == "right":
        fields.update({key: right.field(key) for key in right_keys if isinstance(key, str)})
    return OperationLineage("join", ExplicitEdges(fields), rows)


def _join_option(call: MethodCall, name: str) -> Any:
    return call.argument(1, name) if name == "on" else call.kwargs.get(name)


def _joined_field(label: str, left: FrameVersion, right: FrameVersion, suffix: str) -> Provenance:
    if left.has(label):
        return left.field(label)
    base_label = label.removesuffix(suffix)
    return right.field(label) if right.has(label) else right.field(base_label) if right.has(base_label) else {}


def trace_concat(call: MethodCall) -> OperationLineage:
    """Trace pl.concat(frames): columns are merged by label; `align` joins the frames on their common columns."""
    fields: dict[Any, Provenance] = {
        label: union(*[source.field(label) for source in call.sources if source.has(label)]) for label in call.labels
    }
    how = str(call.kwargs.get("how", ""))
    if not how.startswith("align"):
        return OperationLineage("concat", ExplicitEdges(fields), {})
    keys = [label for label in call.labels if all(source.has(label) for source in call.sources)]
    for key in keys:
        values = [source.field(key) for source in call.sources]
        is_full = how in ("align", "align_full") and len(values) > 1
        fields[key] = coalesced(*values) if is_full else values[-1 if how == "align_right" else 0]
    is_joined = len(call.sources) > 1
    rows = union(*[as_indirect(source.fields(keys), JOIN) for source in call.sources]) if is_joined else {}
    return OperationLineage("join", ExplicitEdges(fields), rows)


def trace_update(call: MethodCall) -> OperationLineage:
    """Trace frame.update(other, on=...): values of the other frame, or the old ones where it has none."""
    left, right = call.sources[:2]
    how, on = call.argument(2, "how", "left"), call.argument(1, "on")
    left_keys, right_keys = (
        as_list(on if on is not None else call.kwargs.get(side)) for side in ("left_on", "right_on")
    )
    updated = [label for label in call.labels if left.has(label) and right.has(label) and label not in right_keys]
    is_null_kept = bool(call.kwargs.get("include_nulls"))
    fields: dict[Any, Provenance] = {}
    for label in updated:
        both = coalesced(right.field(label), left.field(label))
        values = union(left.field(label), right.field(label))
        fields[label] = apply_direct(values, TRANSFORMATION) if is_null_kept else both
    if how == "full":
        for left_key, right_key in zip(left_keys, right_keys, strict=False):
            fields[left_key] = coalesced(left.field(left_key), right.field(right_key))
    is_joined = bool(updated) or how == "full"
    rows = union(left.fields(left_keys), right.fields(right_keys)) if is_joined and left_keys else {}
    return OperationLineage("join", IdentityEdges(left, IDENTITY, fields), as_indirect(rows, JOIN))


def trace_merge_sorted(call: MethodCall) -> OperationLineage:
    """Trace frame.merge_sorted(other, key): rows of both frames, sorted by the key."""
    keys = as_list(call.argument(1, "key"))
    rows = union(*[as_indirect(source.fields(keys), SORT) for source in call.sources])
    return trace_concat(call._replace(kwargs={}))._replace(rows=rows)


def trace_unknown_method(call: MethodCall) -> OperationLineage:
    """Trace a method without a rule: from all columns, flagged OPAQUE."""
    all_columns = union(*[source.fields(None, TRANSFORMATION | OPAQUE) for source in call.sources])
    is_alone = len(call.sources) == 1 and call.name not in _USER_FUNCTIONS
    new_fields: dict[Any, Provenance] = {
        label: all_columns for label in call.labels if not (is_alone and call.receiver.has(label))
    }
    return OperationLineage("unknown", IdentityEdges(call.receiver, TRANSFORMATION | OPAQUE, new_fields), {})


def trace_sql(call: MethodCall) -> OperationLineage:
    """Trace pl.sql(text): a query over frames by name."""
    text, names = call.args
    database = SourceDatabase("duckdb", lambda name: ExternalDataset("", f"polars:{name}"), {})
    query = Query(text, dict(zip(names, call.sources, strict=True)), database)
    return OperationLineage(query.kind(), ExplicitEdges(query.fields(list(call.labels))), query.rows)


# Functions of the user get whole frames.
_USER_FUNCTIONS = frozenset(["map_groups", "map_rows", "map_batches"])
_SELECTION_METHODS = (
    "head tail limit slice first last sample gather_every drop clone lazy collect rechunk set_sorted shrink_to_fit "
    "with_row_index reverse cache collect_async __getitem__"
).split()
_REDUCTION_METHODS = "sum mean min max median std var count null_count quantile product n_unique describe".split()
_PER_COLUMN_METHODS = "fill_null fill_nan cast shift interpolate map_columns".split()

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SELECTION_METHODS, per_column_rule()),
    **dict.fromkeys(_REDUCTION_METHODS, per_column_rule(AGGREGATION, "aggregation")),
    **dict.fromkeys(_PER_COLUMN_METHODS, per_column_rule(TRANSFORMATION, "transformation")),
    "select": trace_select,
    "select_seq": trace_select,
    "with_columns": trace_with_columns,
    "with_columns_seq": trace_with_columns,
    "filter": trace_filter,
    "remove": trace_filter,
    "sort": rows_by_columns_rule(0, "by", SORT),
    "top_k": rows_by_columns_rule(1, "by", SORT),
    "bottom_k": rows_by_columns_rule(1, "by", SORT),
    "unique": rows_by_columns_rule(0, "subset", FILTER),
    "drop_nulls": rows_by_columns_rule(0, "subset", FILTER),
    "drop_nans": rows_by_columns_rule(0, "subset", FILTER),
    "sql": trace_sql,
    "rename": trace_rename,
    "explode": trace_explode,
    "unpivot": trace_unpivot,
    "pivot": trace_pivot,
    "agg": trace_agg,
    "group_head": trace_group_head,
    "unnest": trace_unnest,
    "hstack": trace_hstack,
    "insert_column": trace_insert_column,
    "replace_column": trace_insert_column,
    "join_where": trace_join_where,
    **dict.fromkeys(("vstack", "extend"), trace_concat),
    "join": trace_join,
    "join_asof": trace_join,
    "concat": trace_concat,
    "update": trace_update,
    "merge_sorted": trace_merge_sorted,
}
