"""DataFrames of tables in S3: Python workers read the files, so that Spark needs no Hadoop jars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from clew.lake.facet_places import REF_MARKER, ROW_SEPARATOR
from clew.lake.storage import open_parquet
from clew.pipeline.schemas import arrow_schema
from clew.pipeline.telling import tasks_of

# Rows per Arrow batch to the JVM; facets are up to 64 KB.
_ROWS_PER_BATCH = 500
_FILES_PER_TASK = 8
_REF_COLUMNS: Final = "uuid string, facet_ref string"


def read_parquet_in_workers(spark: SparkSession, files: Sequence[str], schema: StructType) -> DataFrame:
    """Read files on the workers; columns that are newer than a file are null."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_ReadFiles(groups, arrow_schema(schema)), schema)


def locate_large_facets(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return the reference (`file#row`) of each row of `large_facets`."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_LocateLargeFacets(groups), _REF_COLUMNS)


def _groups(files: Sequence[str]) -> list[Sequence[str]]:
    return [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]


class _ReadFiles:
    """Reads groups of files on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]], schema: pa.Schema) -> None:
        self._groups = groups
        self._schema = schema

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in tasks_of(task_batches, self._groups):
            for path in group:
                yield from self._batches(path)

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(open_parquet(path)) as file:
            present = [name for name in self._schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(_ROWS_PER_BATCH, columns=present):
                yield pa.RecordBatch.from_arrays(list(self._columns(batch)), schema=self._schema)

    def _columns(self, batch: pa.RecordBatch) -> Iterator[pa.Array]:
        for field in self._schema:
            if field.name in batch.schema.names:
                yield batch.column(field.name).cast(field.type)
            else:
                yield pa.nulls(batch.num_rows, field.type)


class _LocateLargeFacets:
    """Builds the references of `large_facets` rows on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = groups

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in tasks_of(task_batches, self._groups):
            for path in group:
                with pq.ParquetFile(open_parquet(path)) as file:
                    uuids = file.read(columns=["uuid"])["uuid"].to_pylist()
                refs = [f"{REF_MARKER}{path}{ROW_SEPARATOR}{row}" for row in range(len(uuids))]
                yield pa.RecordBatch.from_pydict({"uuid": pa.array(uuids, pa.string()), "facet_ref": refs})
