"""Tags and owners in the current facets of runs, jobs and datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.lake.facet_columns import OWNERS, TAGS
from clew.pipeline.derive.opening import explode_facet

_IDENTITIES = {
    "RUN": ("run_facets", ("run_uuid",)),
    "JOB": ("job_facets", ("job_namespace", "job_name")),
    "DATASET": ("dataset_facets", ("dataset_namespace", "dataset_name")),
}


def derive_tags(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per tag of a run, of a job, of a dataset or of its column."""
    return explode_facet(_last_named_facet(tables, "tags", "RUN", "JOB", "DATASET"), "facet", TAGS)


def derive_owners(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per owner of a job or a dataset."""
    return explode_facet(_last_named_facet(tables, "ownership", "JOB", "DATASET"), "facet", OWNERS)


def _last_named_facet(tables: Mapping[str, DataFrame], name: str, *kinds: str) -> DataFrame:
    """Return the last facet of that name of each run, job or dataset, of any version."""
    columns = [column for kind in kinds for column in _IDENTITIES[kind][1]]
    return reduce(DataFrame.unionByName, (_last_of_kind(tables, kind, name, columns) for kind in kinds))


def _last_of_kind(tables: Mapping[str, DataFrame], kind: str, name: str, columns: Iterable[str]) -> DataFrame:
    table, key_columns = _IDENTITIES[kind]
    # Of several facets in one event the last wins: the uuid ends with the position in the event.
    last = [F.max_by(column, F.struct("precedence", "uuid")).alias(column) for column in ("facet", "seq")]
    named = tables[table].where((F.col("name") == name) & _belongs(kind)).groupBy(*key_columns)
    identity = [
        F.col(column) if column in key_columns else F.lit(None).cast("string").alias(column) for column in columns
    ]
    return named.agg(*last).select(F.lit(kind).alias("kind"), *identity, "facet", "seq")


def _belongs(kind: str) -> Column:
    return F.col("type") == "DATASET" if kind == "DATASET" else F.col(_IDENTITIES[kind][1][0]).isNotNull()
