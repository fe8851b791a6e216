"""The name of a version of a job, as Spark computes it: what `clew.events.versions` says, column by column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clew.events.versions import BETWEEN_ITEMS, BETWEEN_NAMES, BETWEEN_PARTS

_GROUPS = r"^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def job_version() -> Column:
    """The version by the columns `job_namespace`, `job_name`, `inputs`, `outputs` and `location`."""
    parts = ("job_namespace", "job_name"), ("inputs", "outputs"), ("location",)
    names, lists, location = ([F.col(column) for column in columns] for columns in parts)
    text = F.concat_ws(BETWEEN_PARTS, *names, *map(_listed, lists), *(F.coalesce(one, F.lit("")) for one in location))
    return F.regexp_replace(F.md5(F.encode(text, "UTF-8")), _GROUPS, "$1-$2-$3-$4-$5")


def _listed(datasets: Column) -> Column:
    names = F.transform(datasets, lambda one: F.concat(one["namespace"], F.lit(BETWEEN_NAMES), one["name"]))
    return F.coalesce(F.array_join(F.sort_array(names), BETWEEN_ITEMS), F.lit(""))
