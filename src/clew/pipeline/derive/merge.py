"""Spark aggregation of merge specifications."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.index.merge_rules import MergeSpec, Rule, ValueBy


def merge_rows(rows: DataFrame, spec: MergeSpec) -> DataFrame:
    """Merge rows to one row per key."""
    columns = rows.columns
    if spec.implied_flag is not None:
        is_implied = F.min(spec.implied_flag).over(Window.partitionBy(*spec.key))
        rows = rows.withColumn("_is_implied", is_implied).where(F.col(spec.implied_flag) == F.col("_is_implied"))
    ruled = {column for group in spec.groups for column in group}
    # Columns without a rule depend on the key only.
    constant = [F.any_value(column).alias(column) for column in columns if column not in {*spec.key, *ruled}]
    aggregates, selected = [], [*map(F.col, spec.key)]
    for number, (group, rule) in enumerate(spec.groups.items()):
        present = [column for column in group if column in columns]
        aggregates += _aggregates(number, present, rule)
        selected += [F.col(f"_{number}.{column}") if isinstance(rule, ValueBy) else F.col(column) for column in present]
    if not aggregates and not constant:
        return rows.select(*columns).distinct()
    merged = rows.groupBy(*spec.key).agg(*aggregates, *constant)
    constants = [F.col(column) for column in columns if column not in {*spec.key, *ruled}]
    return merged.select(*selected, *constants).select(*columns)


def _aggregates(number: int, columns: list[str], rule: Rule) -> list[Column]:
    if isinstance(rule, ValueBy):
        *leading, last = rule.order
        order = F.struct(*(F.coalesce(column, F.lit(0)).alias(column) for column in leading), last)
        pick = F.max_by if rule.pick == "max" else F.min_by
        return [pick(F.struct(*columns), F.when(F.col(last).isNotNull(), order)).alias(f"_{number}")]
    function = F.min if rule == "minimum" else F.max
    return [function(column).alias(column) for column in columns]
