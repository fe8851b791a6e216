"""Read-only access to the tables of a lake as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from clew.errors import ClewError
from clew.lake.delta import Lake
from clew.pipeline.lake_tables import table_rows

Tables = Mapping[str, DataFrame]


class LakeTables(Mapping[str, DataFrame]):
    """Tables by name, opened on first access with their Delta schema."""

    def __init__(self, spark: SparkSession, lake: Lake, names: tuple[str, ...]) -> None:
        self._names = names
        self._table = cache(lambda name: _derived_table(spark, lake, name))

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _derived_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    table = lake.table(name)
    if table is None:
        hint = "Derived tables are written at the end of `clew pipeline run`."
        raise ClewError(f"The lake {lake.root} has no table {name} yet.", hint=hint)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    return table_rows(spark, lake, name, schema)
