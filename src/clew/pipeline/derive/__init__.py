"""Derived tables: registry of the transforms from event tables to derived tables.

- `refresh.py`: compute and write all derived tables
- `facets.py`: parsed facets; current facets, tags, owners, schemas
- `runs.py`: runs, jobs, job versions, parent references
- `datasets.py`: datasets, dataset versions, canonical names
- `io.py`: inputs and outputs of runs
- `assertions.py`: lineage assertions: what a run asserts about an output
- `edges.py`: column, dataset and job edges
- `notebooks.py`: cell executions and operations
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame

from clew.pipeline.derive.assertions import (
    derive_asserted_edges,
    derive_edge_sets,
    derive_event_assertions,
    derive_lineage_assertions,
)
from clew.pipeline.derive.datasets import (
    derive_dataset_aliases,
    derive_dataset_versions,
    derive_datasets,
    derive_lifecycle_changes,
    derive_renames,
    derive_symlinks,
)
from clew.pipeline.derive.edges import (
    derive_column_edges,
    derive_dataset_edges,
    derive_job_dependencies,
    derive_job_edges,
)
from clew.pipeline.derive.facets import (
    derive_current_dataset_facets,
    derive_current_job_facets,
    derive_current_run_facets,
    derive_owners,
    derive_schemas,
    derive_tags,
)
from clew.pipeline.derive.io import derive_explicit_lineage_entries, derive_inferred_inputs, derive_run_io
from clew.pipeline.derive.notebooks import derive_cell_executions, derive_operations
from clew.pipeline.derive.runs import (
    derive_job_versions,
    derive_jobs,
    derive_observed_job_versions,
    derive_parent_references,
    derive_referenced_jobs,
    derive_referenced_runs,
    derive_runs,
)
from clew.pipeline.spark.dataframes import LARGE_FACET_INFO

Tables = Mapping[str, DataFrame]
Transform = Callable[[Tables], DataFrame]


class TableCatalog(Tables):
    """DataFrames by name, built on first use. Tables in `shared` are cached until the end."""

    def __init__(
        self, tables: Tables, transforms: Mapping[str, Transform], shared: frozenset[str] = frozenset()
    ) -> None:
        self._tables = dict(tables)
        self._transforms = transforms
        self._shared = shared
        self._cached = [table.persist() for name, table in tables.items() if name in shared]

    def __getitem__(self, name: str) -> DataFrame:
        """Return an event table, or build a derived table."""
        if name not in self._tables:
            self._tables[name] = self._build(name)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all tables."""
        return iter({**self._tables, **self._transforms})

    def __len__(self) -> int:
        return len({**self._tables, **self._transforms})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for table in self._cached:
            table.unpersist()
        self._tables.clear()
        self._cached.clear()
        # Py4J objects are in reference cycles: until they are collected, the JVM holds their plans (40 MB each time).
        gc.collect()

    def _build(self, name: str) -> DataFrame:
        table = self._transforms[name](self)
        if name in self._shared:
            self._cached.append(table.persist())
        return table


# Used by other transforms, not written to the lake.
INTERMEDIATE_TABLES: Final[dict[str, Transform]] = {
    "event_assertions": derive_event_assertions,
    "asserted_edges": derive_asserted_edges,
    "lineage_assertions": derive_lineage_assertions,
    "edge_sets": derive_edge_sets,
    "explicit_lineage_entries": derive_explicit_lineage_entries,
    "inferred_inputs": derive_inferred_inputs,
    "symlinks": derive_symlinks,
    "lifecycle_changes": derive_lifecycle_changes,
    "renames": derive_renames,
    "observed_job_versions": derive_observed_job_versions,
    "parent_references": derive_parent_references,
    "referenced_runs": derive_referenced_runs,
    "referenced_jobs": derive_referenced_jobs,
}
DERIVED_TABLES: Final[dict[str, Transform]] = {
    "runs": derive_runs,
    "jobs": derive_jobs,
    "job_versions": derive_job_versions,
    "datasets": derive_datasets,
    "dataset_versions": derive_dataset_versions,
    "schemas": derive_schemas,
    "tags": derive_tags,
    "owners": derive_owners,
    "run_io": derive_run_io,
    "job_edges": derive_job_edges,
    "job_dependencies": derive_job_dependencies,
    "dataset_edges": derive_dataset_edges,
    "column_edges": derive_column_edges,
    "dataset_aliases": derive_dataset_aliases,
    "current_run_facets": derive_current_run_facets,
    "current_job_facets": derive_current_job_facets,
    "current_dataset_facets": derive_current_dataset_facets,
    "cell_executions": derive_cell_executions,
    "operations": derive_operations,
}
# Used by several transforms.
CACHED_TABLES: Final = frozenset(
    {
        LARGE_FACET_INFO,
        "run_io",
        "runs",
        "cell_executions",
        "observed_job_versions",
        "parent_references",
        "event_assertions",
        "asserted_edges",
        "lineage_assertions",
        "explicit_lineage_entries",
        "inferred_inputs",
        "lifecycle_changes",
        "dataset_aliases",
    }
)
