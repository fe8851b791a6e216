"""Canonical names of datasets with several names (symlinks)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.events.nodes import Name, resolve_aliases
from clew.events.symlinks import SYMLINKS_FACET
from clew.lake.facet_columns import IDENTIFIERS
from clew.pipeline.derive.opening import explode_facet

_SCHEMA = pa.schema([(name, pa.string()) for name in ("namespace", "name", "canonical_namespace", "canonical_name")])


def derive_symlinks(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset with a symlinks facet and alias; a null alias if the last facet has none."""
    facets = tables["dataset_facets"].where((F.col("name") == SYMLINKS_FACET) & (F.col("type") == "DATASET"))
    last = facets.groupBy("dataset_namespace", "dataset_name").agg(
        F.max_by("facet", F.struct("precedence", "uuid")).alias("facet"),
        F.max_by("seq", "precedence").alias("last_seq"),
    )
    return explode_facet(last, "facet", IDENTIFIERS).withColumnsRenamed(
        {"dataset_namespace": "namespace", "dataset_name": "name"}
    )


def derive_dataset_aliases(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per name of a dataset with several names, with its canonical name."""
    pairs = tables["symlinks"].where(F.col("other_name").isNotNull())
    # One partition: connected components need all names.
    return pairs.drop("last_seq").coalesce(1).mapInArrow(_resolve_aliases, from_arrow_schema(_SCHEMA))


def with_canonical_names(rows: DataFrame, aliases: DataFrame, *prefixes: str) -> DataFrame:
    """Replace names by canonical names in the columns `<prefix>_namespace` and `<prefix>_name`."""
    for prefix in prefixes:
        namespace, name = f"{prefix}_namespace", f"{prefix}_name"
        renamed = aliases.withColumnsRenamed({"namespace": namespace, "name": name})
        # Few datasets have several names: broadcast.
        rows = (
            rows.join(F.broadcast(renamed), [namespace, name], how="left")
            .withColumns(
                {namespace: F.coalesce("canonical_namespace", namespace), name: F.coalesce("canonical_name", name)}
            )
            .drop("canonical_namespace", "canonical_name")
        )
    return rows


def _resolve_aliases(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    canonical_names = resolve_aliases(pair for batch in batches for pair in _pairs(batch))
    rows = [(*name, *canonical) for name, canonical in canonical_names.items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_SCHEMA)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Name, Name]]:
    names = [batch.column(name).to_pylist() for name in ("namespace", "name", "other_namespace", "other_name")]
    return (((row[0], row[1]), (row[2], row[3])) for row in zip(*names, strict=True))
