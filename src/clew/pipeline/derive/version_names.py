"""Job version hash as a Spark column; same as `clew.events.versions`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from clew.events.versions import ITEM_SEPARATOR, NAME_SEPARATOR, PART_SEPARATOR

_GROUPS = r"^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def job_version_hash() -> Column:
    """Hash the columns `job_namespace`, `job_name`, `inputs`, `outputs` and `source_code_location`."""
    parts = ("job_namespace", "job_name"), ("inputs", "outputs"), ("source_code_location",)
    names, lists, location = ([F.col(column) for column in columns] for columns in parts)
    text = F.concat_ws(
        PART_SEPARATOR, *names, *map(_join_names, lists), *(F.coalesce(value, F.lit("")) for value in location)
    )
    return F.regexp_replace(F.md5(F.encode(text, "UTF-8")), _GROUPS, "$1-$2-$3-$4-$5")


def _join_names(datasets: Column) -> Column:
    names = F.transform(datasets, lambda value: F.concat(value["namespace"], F.lit(NAME_SEPARATOR), value["name"]))
    return F.coalesce(F.array_join(F.sort_array(names), ITEM_SEPARATOR), F.lit(""))
