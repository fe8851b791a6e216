"""The table of pandas methods: one row per method, with its lineage rule for each receiver.

Methods without a row are traced by the default of their receiver, so that those of a new pandas are not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from clew.capture.backends.base import Tracing, noop
from clew.capture.backends.pandas import (
    aggregation,
    assignment,
    elementwise,
    io,
    joins,
    reshape,
    selection,
    series,
)
from clew.capture.backends.pandas.call import ARITHMETIC_METHODS, OPERATORS, module_function_rule
from clew.capture.backends.pandas.elementwise import (
    KEYWORD_ONLY,
    RowAxis,
    all_columns,
    column_and_offset,
    columns_from,
    columns_up_to,
    function_rule,
    named_columns_rule,
    per_column_rule,
)
from clew.capture.backends.pandas.groupby import GroupMethod
from clew.capture.backends.pandas.inference import evaluate_arguments, evaluate_cases
from clew.capture.backends.pandas.selection import rows_by_columns_rule, trace_rename, trace_selection
from clew.capture.backends.pandas.series import SeriesMethod
from clew.capture.lineage.transformations import AGGREGATION, FILTER, IDENTITY, SORT, TRANSFORMATION

if TYPE_CHECKING:
    from clew.capture.backends.base import Prepare, ReadState, Rule
    from clew.capture.lineage.operations import OperationType


class Method(NamedTuple):
    """How the calls of a method are traced, by receiver; None is the default of the receiver."""

    # DataFrame; default: every new column from all columns, marked OPAQUE.
    frame: Rule | None = None
    # Series; default: TRANSFORMATION of the values and the arguments.
    series: Rule | SeriesMethod | None = None
    # GroupBy, Resampler and Window; default: an aggregate.
    group: Rule | GroupMethod | None = None
    # Transformation of the levels by a method or property of Index; 0: not traced.
    index_step: int = 0
    # Function of the module with the same name; default: not traced.
    function: Rule | None = None
    # Runs before the call, as for callbacks among the arguments.
    prepare: Prepare | None = None
    # Type of the operations on frames and of the module's function. For other receivers it depends on the lineage.
    kind: OperationType = "transformation"
    # Whether the method has `inplace` and warns about chained assignment.
    in_place: bool = False
    # Whether the method looks up the caller's variables by stack level.
    has_stack_level: bool = False

    def tracing(self, rule: Rule, read_state: ReadState = noop) -> Tracing:
        """Return how calls are traced by one of the rules."""
        return Tracing(rule, read_state, self.prepare, self.kind)


# Effects on the values, the rows and the index of a Series.
_ROWS = SeriesMethod(IDENTITY, selects_rows=True)
_SORTED = SeriesMethod(IDENTITY, row_use=SORT)
_FILTERED = SeriesMethod(IDENTITY, row_use=FILTER)
_REDUCED = SeriesMethod(AGGREGATION, drops_index=True)
_CUMULATED = SeriesMethod(AGGREGATION)
_ALIGNED = SeriesMethod(TRANSFORMATION, aligns_index=True)
# Effects on the values and the rows of groups.
_GROUP_ROWS = GroupMethod(IDENTITY, "selection")
_GROUP_SORTED = GroupMethod(IDENTITY, row_use=SORT)
_GROUP_COUNTED = GroupMethod(AGGREGATION, counts_rows=True)
_GROUP_NUMBERED = GroupMethod(TRANSFORMATION, is_transform=True, counts_rows=True)
_GROUP_CUMULATED = GroupMethod(AGGREGATION, is_transform=True)
_GROUP_TRANSFORMED = GroupMethod(TRANSFORMATION, is_transform=True)
# Resampling creates rows and fills them from their neighbours.
_GROUP_FILLED = GroupMethod(TRANSFORMATION)

_TRANSFORM = per_column_rule(TRANSFORMATION)
_VALUE_FUNCTION = elementwise.trace_value_function
_INDEX_ONLY = Method(index_step=TRANSFORMATION)

_TABLE: tuple[tuple[str, Method], ...] = (
    # Element-wise.
    ("abs convert_dtypes", Method(_TRANSFORM)),
    ("isin", Method(_TRANSFORM, index_step=TRANSFORMATION)),
    ("isna notna", Method(_TRANSFORM, index_step=TRANSFORMATION, function=_VALUE_FUNCTION)),
    ("isnull notnull", Method(_TRANSFORM, function=_VALUE_FUNCTION)),
    ("clip", Method(_TRANSFORM, in_place=True)),
    ("combine", Method(_TRANSFORM, series.trace_series_apply)),
    (" ".join(ARITHMETIC_METHODS), Method(_TRANSFORM, _ALIGNED)),
    (" ".join(OPERATORS), Method(_TRANSFORM, _ALIGNED, index_step=TRANSFORMATION)),
    ("astype", Method(named_columns_rule(0, "dtype"), index_step=TRANSFORMATION)),
    ("round", Method(named_columns_rule(0, "decimals"), index_step=TRANSFORMATION)),
    ("replace", Method(named_columns_rule(0, "to_replace"), in_place=True)),
    ("map", Method(function_rule(), series.trace_series_map, index_step=TRANSFORMATION)),
    ("transform", Method(function_rule(RowAxis(1, all_columns)), series.trace_series_apply, _GROUP_CUMULATED)),
    ("compare", Method(elementwise.trace_compare)),
    ("query", Method(elementwise.trace_query, kind="selection", has_stack_level=True)),
    ("eval", Method(elementwise.trace_eval, kind="assignment", has_stack_level=True)),
    (
        "ffill",
        Method(
            per_column_rule(TRANSFORMATION, RowAxis(KEYWORD_ONLY, columns_up_to)),
            group=_GROUP_TRANSFORMED,
            in_place=True,
        ),
    ),
    (
        "bfill",
        Method(
            per_column_rule(TRANSFORMATION, RowAxis(KEYWORD_ONLY, columns_from)),
            group=_GROUP_TRANSFORMED,
            in_place=True,
        ),
    ),
    (
        "interpolate",
        Method(per_column_rule(TRANSFORMATION, RowAxis(KEYWORD_ONLY, all_columns)), group=_GROUP_FILLED, in_place=True),
    ),
    ("nearest", Method(group=_GROUP_FILLED)),
    ("rank", Method(per_column_rule(TRANSFORMATION, RowAxis(0, all_columns)), group=_GROUP_TRANSFORMED)),
    ("diff", Method(per_column_rule(TRANSFORMATION, RowAxis(1, column_and_offset)), group=_GROUP_TRANSFORMED)),
    (
        "pct_change",
        Method(per_column_rule(TRANSFORMATION, RowAxis(KEYWORD_ONLY, column_and_offset)), group=_GROUP_TRANSFORMED),
    ),
    ("shift", Method(elementwise.trace_shift, series.trace_series_shift, _GROUP_TRANSFORMED)),
    (
        "cumsum cumprod cummax cummin",
        Method(per_column_rule(AGGREGATION, RowAxis(0, columns_up_to)), _CUMULATED, _GROUP_CUMULATED),
    ),
    (
        "to_period to_timestamp tz_convert tz_localize",
        Method(elementwise.trace_index_conversion, series.trace_series_index_conversion, index_step=TRANSFORMATION),
    ),
    ("strftime normalize floor ceil month_name day_name", _INDEX_ONLY),
    ("year month day hour minute second date time quarter", _INDEX_ONLY),
    ("dayofweek day_of_week weekday dayofyear day_of_year", _INDEX_ONLY),
    ("cut qcut to_datetime to_numeric to_timedelta", Method(function=_VALUE_FUNCTION)),
    ("factorize", Method(function=_VALUE_FUNCTION)),
    # Aggregation.
    (
        "sum mean median min max std var sem prod product count nunique any all skew kurt kurtosis idxmax idxmin mode",
        Method(aggregation.reduction_rule(), _REDUCED, kind="aggregation"),
    ),
    ("describe", Method(aggregation.reduction_rule(), _REDUCED, kind="aggregation")),
    ("quantile", Method(aggregation.reduction_rule(axis_position=1), _REDUCED, kind="aggregation")),
    ("argmax argmin autocorr item", Method(series=_REDUCED)),
    ("agg aggregate", Method(aggregation.trace_agg, _REDUCED, kind="aggregation")),
    (
        "corr cov dot __matmul__ __rmatmul__",
        Method(aggregation.all_columns_rule(AGGREGATION), _REDUCED, kind="aggregation"),
    ),
    ("corrwith", Method(aggregation.all_columns_rule(AGGREGATION), kind="aggregation")),
    ("apply", Method(aggregation.trace_apply, series.trace_series_apply)),
    (
        "value_counts",
        Method(aggregation.trace_value_counts, series.trace_series_value_counts, _GROUP_COUNTED, kind="aggregation"),
    ),
    ("size", Method(group=_GROUP_COUNTED)),
    ("ngroup cumcount", Method(group=_GROUP_NUMBERED)),
    ("groupby", Method(aggregation.trace_groupby, aggregation.trace_series_groupby)),
    (
        "resample",
        Method(aggregation.trace_resample, aggregation.trace_series_resample, aggregation.trace_groupby_window),
    ),
    (
        "rolling expanding ewm",
        Method(aggregation.trace_window, aggregation.trace_series_window, aggregation.trace_groupby_window),
    ),
    # Selection, sorting and labels.
    ("copy", Method(trace_selection, _ROWS, index_step=IDENTITY, kind="selection")),
    ("head tail", Method(trace_selection, _ROWS, _GROUP_ROWS, kind="selection")),
    ("take", Method(selection.trace_take, _ROWS, _GROUP_ROWS, IDENTITY, kind="selection")),
    ("asfreq", Method(trace_selection, _ROWS, _GROUP_FILLED, kind="selection")),
    ("first last truncate between_time at_time squeeze get", Method(trace_selection, _ROWS, kind="selection")),
    ("reindex_like infer_objects set_flags __copy__ __deepcopy__", Method(trace_selection, _ROWS, kind="selection")),
    ("filter", Method(trace_selection, group=_GROUP_ROWS, kind="selection")),
    ("select_dtypes asof", Method(trace_selection, kind="selection")),
    ("nth get_group", Method(group=_GROUP_ROWS)),
    ("sample", Method(selection.trace_sample, _ROWS, _GROUP_ROWS, kind="selection")),
    ("xs", Method(selection.trace_xs, _ROWS, kind="selection")),
    ("repeat", Method(series=_ROWS, index_step=IDENTITY)),
    ("reindex", Method(selection.trace_reindex, series.trace_series_reindex, kind="selection")),
    ("drop", Method(selection.trace_drop, _ROWS, index_step=IDENTITY, kind="selection")),
    ("droplevel reorder_levels", Method(selection.level_rule(axis_position=1), _ROWS, kind="selection")),
    ("swaplevel", Method(selection.level_rule(axis_position=2), _ROWS, kind="selection")),
    ("sort_index", Method(selection.trace_sort_index, series.trace_series_sort_index, kind="sort")),
    ("sort_values", Method(rows_by_columns_rule(0, "by", SORT), _SORTED, index_step=IDENTITY, kind="sort")),
    (
        "nlargest nsmallest",
        Method(rows_by_columns_rule(1, "columns", SORT, all_by_default=False), _SORTED, _GROUP_SORTED, kind="sort"),
    ),
    (
        "drop_duplicates",
        Method(
            rows_by_columns_rule(0, "subset", FILTER, all_by_default=True),
            _FILTERED,
            index_step=IDENTITY,
            kind="selection",
        ),
    ),
    ("dropna", Method(selection.trace_dropna, _FILTERED, index_step=IDENTITY, kind="selection")),
    ("duplicated", Method(selection.trace_duplicated, index_step=TRANSFORMATION)),
    ("rename", Method(trace_rename, _ROWS, index_step=IDENTITY)),
    ("rename_axis", Method(trace_rename, series.trace_series_rename_axis)),
    ("add_prefix add_suffix set_axis", Method(trace_rename, _ROWS)),
    ("set_index", Method(selection.trace_set_index)),
    ("reset_index", Method(selection.trace_reset_index, series.trace_series_reset_index)),
    ("pop", Method(selection.trace_pop, _ROWS, kind="selection")),
    ("__delitem__", Method(selection.trace_delitem, kind="selection")),
    ("align", Method(selection.trace_align, series.trace_series_align, kind="selection")),
    ("mask", Method(selection.trace_where, series.trace_series_where, prepare=evaluate_arguments, in_place=True)),
    (
        "where",
        Method(
            selection.trace_where,
            series.trace_series_where,
            index_step=TRANSFORMATION,
            prepare=evaluate_arguments,
            in_place=True,
        ),
    ),
    ("case_when", Method(series=series.trace_series_case_when, prepare=evaluate_cases)),
    ("__getitem__", Method(series=series.trace_series_getitem, kind="selection")),
    ("set_names", Method(index_step=IDENTITY)),
    ("intersection union difference symmetric_difference append tolist to_list to_series", Method(index_step=IDENTITY)),
    # Assignment.
    ("insert", Method(assignment.trace_insert, kind="assignment")),
    ("isetitem", Method(assignment.trace_isetitem, kind="assignment")),
    ("update", Method(assignment.trace_update, in_place=True, kind="assignment")),
    ("assign", Method(assignment.trace_assign, prepare=assignment.wrap_assign_callbacks, kind="assignment")),
    ("select", Method(assignment.trace_assign, prepare=assignment.wrap_select_callbacks, kind="selection")),
    (
        "fillna",
        Method(
            assignment.trace_fillna,
            series.trace_series_fillna,
            _GROUP_TRANSFORMED,
            index_step=TRANSFORMATION,
            in_place=True,
        ),
    ),
    ("combine_first", Method(assignment.trace_combine_first, series.trace_series_fillna)),
    # Joins.
    ("merge", Method(joins.trace_merge, function=module_function_rule(joins.trace_merge, "left"), kind="join")),
    ("merge_asof", Method(function=module_function_rule(joins.trace_merge_asof, "left"), kind="join")),
    ("merge_ordered", Method(function=module_function_rule(joins.trace_merge_ordered, "left"), kind="join")),
    ("join", Method(joins.trace_join, kind="join")),
    ("concat", Method(function=joins.trace_concat, prepare=joins.buffer_concat_objects, kind="concat")),
    # Reshaping.
    (
        "melt",
        Method(reshape.trace_melt, function=module_function_rule(reshape.trace_melt, "frame"), kind="reshape"),
    ),
    (
        "pivot",
        Method(reshape.trace_pivot, function=module_function_rule(reshape.trace_pivot, "data"), kind="reshape"),
    ),
    (
        "pivot_table",
        Method(
            reshape.trace_pivot_table,
            function=module_function_rule(reshape.trace_pivot_table, "data"),
            kind="reshape",
        ),
    ),
    ("stack", Method(reshape.trace_stack, kind="reshape")),
    ("unstack", Method(reshape.trace_unstack, series.trace_series_unstack, kind="reshape")),
    ("explode", Method(reshape.trace_explode, kind="reshape")),
    ("transpose T", Method(aggregation.all_columns_rule(TRANSFORMATION), kind="reshape")),
    ("get_dummies", Method(function=reshape.trace_get_dummies)),
    ("crosstab", Method(function=reshape.trace_crosstab, kind="aggregation")),
    ("wide_to_long", Method(function=reshape.trace_wide_to_long, kind="reshape")),
    ("from_dummies json_normalize lreshape", Method(function=elementwise.trace_unknown_function, kind="creation")),
    # Files and exports.
    (
        "to_csv to_parquet to_json to_excel to_feather to_pickle to_sql to_hdf to_orc to_stata to_xml",
        Method(io.trace_write, io.trace_series_write, kind="io"),
    ),
    ("to_dict", Method(selection.trace_export, series.trace_series_export)),
    ("to_records", Method(selection.trace_export)),
    ("items", Method(series=series.trace_series_export)),
    ("to_frame", Method(series=series.trace_series_to_frame, index_step=IDENTITY)),
    ("unique", Method(series=series.trace_series_to_array, index_step=IDENTITY, function=_VALUE_FUNCTION)),
    ("to_numpy values", Method(aggregation.trace_to_numpy, series.trace_series_to_array, index_step=IDENTITY)),
    ("array", Method(series=series.trace_series_to_array)),
    ("__array__", Method(aggregation.trace_to_numpy, series.trace_series_to_array)),
)

METHODS = {name: method for names, method in _TABLE for name in names.split()}

# These create no data, or export it in a form that cannot have provenance.
IGNORED_METHODS = frozenset(
    "plot hist boxplot info keys memory_usage pipe to_string to_html to_markdown to_clipboard "
    "equals first_valid_index last_valid_index attrs iloc loc at iat style sparse to_xarray to_iceberg "
    "items iterrows itertuples tolist to_list view".split()
)

_NUMPY_TABLE: tuple[tuple[str, Rule], ...] = (
    ("where", elementwise.trace_np_where),
    ("select", elementwise.trace_np_select),
    ("column_stack", elementwise.trace_np_column_stack),
    ("nonzero flatnonzero argwhere argsort", elementwise.trace_np_positions),
    (
        "concatenate hstack vstack stack clip round isin digitize nan_to_num interp searchsorted repeat append",
        elementwise.np_function_rule(TRANSFORMATION),
    ),
    ("dot percentile average", elementwise.np_function_rule(AGGREGATION)),
)
NUMPY_FUNCTIONS = {name: rule for names, rule in _NUMPY_TABLE for name in names.split()}
