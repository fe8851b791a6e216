"""Tables of a lake in a bucket, as DataFrames: workers read their files, so that Spark needs no jars for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from clew.lake.facet_places import BEFORE_PLACE, BEFORE_ROW
from clew.lake.storage import parquet_at
from clew.pipeline.schemas import arrow_schema
from clew.pipeline.telling import named_by

# A batch goes to the JVM at once: rows are small here, but for facets of up to 64 KB.
_ROWS_AT_A_TIME = 500
_FILES_PER_TASK = 8
_PLACES: Final = "uuid string, place string"


def fetched(spark: SparkSession, files: Sequence[str], schema: StructType) -> DataFrame:
    """The rows of these files, with these columns; one that a file is older than is null."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_Rows(groups, arrow_schema(schema)), schema)


def fetched_places(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Where each row of `large_facets` is."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_Places(groups), _PLACES)


def _groups(files: Sequence[str]) -> list[Sequence[str]]:
    return [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]


class _Rows:
    """Reads groups of files, on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]], schema: pa.Schema) -> None:
        self._groups = groups
        self._schema = schema

    def __call__(self, places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in named_by(places, self._groups):
            for path in group:
                yield from self._batches(path)

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(parquet_at(path)) as file:
            present = [name for name in self._schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=present):
                yield pa.RecordBatch.from_arrays(list(self._columns(batch)), schema=self._schema)

    def _columns(self, batch: pa.RecordBatch) -> Iterator[pa.Array]:
        for field in self._schema:
            if field.name in batch.schema.names:
                yield batch.column(field.name).cast(field.type)
            else:
                yield pa.nulls(batch.num_rows, field.type)


class _Places:
    """Names the rows of `large_facets`, on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = groups

    def __call__(self, places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in named_by(places, self._groups):
            for path in group:
                with pq.ParquetFile(parquet_at(path)) as file:
                    uuids = file.read(columns=["uuid"])["uuid"].to_pylist()
                names = [f"{BEFORE_PLACE}{path}{BEFORE_ROW}{row}" for row in range(len(uuids))]
                yield pa.RecordBatch.from_pydict({"uuid": pa.array(uuids, pa.string()), "place": names})
