"""Tags and owners of runs, jobs and datasets, by the facets that they have now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.lake.facet_columns import OWNERS, TAGS
from clew.pipeline.derive.opening import listed

_IDENTITIES = {
    "RUN": ("run_facets", ("run_uuid",)),
    "JOB": ("job_facets", ("job_namespace", "job_name")),
    "DATASET": ("dataset_facets", ("dataset_namespace", "dataset_name")),
}


def tags(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per tag of a run, of a job, of a dataset or of its column."""
    return listed(_last(tables, "tags", "RUN", "JOB", "DATASET"), "facet", TAGS)


def owners(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per owner of a job or a dataset."""
    return listed(_last(tables, "ownership", "JOB", "DATASET"), "facet", OWNERS)


def _last(tables: Mapping[str, DataFrame], name: str, *kinds: str) -> DataFrame:
    """The last facet of that name of each run, job or dataset, in whichever version it was named."""
    columns = [column for kind in kinds for column in _IDENTITIES[kind][1]]
    return reduce(DataFrame.unionByName, (_of_kind(tables, kind, name, columns) for kind in kinds))


def _of_kind(tables: Mapping[str, DataFrame], kind: str, name: str, columns: Iterable[str]) -> DataFrame:
    table, own = _IDENTITIES[kind]
    # Of several in one event the last counts; the end of the uuid is the facet's place.
    last = [F.max_by(column, F.struct("turn", "uuid")).alias(column) for column in ("facet", "seq")]
    named = tables[table].where((F.col("name") == name) & _belongs(kind)).groupBy(*own)
    identity = [F.col(column) if column in own else F.lit(None).cast("string").alias(column) for column in columns]
    return named.agg(*last).select(F.lit(kind).alias("kind"), *identity, "facet", "seq")


def _belongs(kind: str) -> Column:
    return F.col("type") == "DATASET" if kind == "DATASET" else F.col(_IDENTITIES[kind][1][0]).isNotNull()
