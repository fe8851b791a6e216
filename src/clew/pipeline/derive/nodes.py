"""Names of datasets that mean the same node, by symlinks, whenever those arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.events.nodes import Name, nodes_of
from clew.events.symlinks import FACET
from clew.lake.facet_columns import IDENTIFIERS
from clew.pipeline.derive.opening import listed

_NODES = pa.schema([(name, pa.string()) for name in ("namespace", "name", "node_namespace", "node_name")])


def symlinks(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset that bears the facet and other name that the last one gives it, none included."""
    facets = tables["dataset_facets"].where((F.col("name") == FACET) & (F.col("type") == "DATASET"))
    last = facets.groupBy("dataset_namespace", "dataset_name").agg(
        F.max_by("facet", F.struct("turn", "uuid")).alias("facet"), F.max_by("seq", "turn").alias("last_seq")
    )
    return listed(last, "facet", IDENTIFIERS).withColumnsRenamed(
        {"dataset_namespace": "namespace", "dataset_name": "name"}
    )


def nodes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per name that is not alone, with the name of its node."""
    pairs = tables["symlinks"].where(F.col("other_name").isNotNull())
    # All names in one place: which of them hang together can only be told from all.
    return pairs.drop("last_seq").coalesce(1).mapInArrow(_nodes, from_arrow_schema(_NODES))


def resolved(rows: DataFrame, nodes: DataFrame, *prefixes: str) -> DataFrame:
    """The rows with the names of nodes in place of the names as said: of `<prefix>_namespace` and `<prefix>_name`."""
    for prefix in prefixes:
        namespace, name = f"{prefix}_namespace", f"{prefix}_name"
        of_node = nodes.withColumnsRenamed({"namespace": namespace, "name": name})
        # Few datasets have several names: sent to the rows rather than the rows to them.
        rows = (
            rows.join(F.broadcast(of_node), [namespace, name], how="left")
            .withColumns({namespace: F.coalesce("node_namespace", namespace), name: F.coalesce("node_name", name)})
            .drop("node_namespace", "node_name")
        )
    return rows


def _nodes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = nodes_of(pair for batch in batches for pair in _pairs(batch))
    rows = [(*name, *node) for name, node in found.items()]
    columns = list(zip(*rows, strict=True)) or [()] * len(_NODES)
    yield pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], schema=_NODES)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[Name, Name]]:
    names = [batch.column(name).to_pylist() for name in ("namespace", "name", "other_namespace", "other_name")]
    return (((row[0], row[1]), (row[2], row[3])) for row in zip(*names, strict=True))
