"""Transforms that build the derived tables from the event tables."""

from __future__ import annotations

from typing import Final

from clew.pipeline.derive.cell_executions import derive_cell_executions
from clew.pipeline.derive.column_edges import derive_column_edges
from clew.pipeline.derive.contents import derive_schemas
from clew.pipeline.derive.current_facets import (
    derive_current_dataset_facets,
    derive_current_job_facets,
    derive_current_run_facets,
)
from clew.pipeline.derive.dataset_edges import derive_dataset_edges
from clew.pipeline.derive.dataset_versions import derive_dataset_versions
from clew.pipeline.derive.datasets import derive_datasets, derive_lifecycle_changes, derive_renames
from clew.pipeline.derive.derivation import Transform
from clew.pipeline.derive.implied_io import derive_explicit_lineage_entries, derive_inferred_inputs
from clew.pipeline.derive.job_edges import derive_job_dependencies, derive_job_edges
from clew.pipeline.derive.job_versions import derive_job_versions, derive_observed_job_versions
from clew.pipeline.derive.jobs import derive_jobs
from clew.pipeline.derive.labels import derive_owners, derive_tags
from clew.pipeline.derive.mentions import derive_parent_references, derive_referenced_jobs, derive_referenced_runs
from clew.pipeline.derive.nodes import derive_dataset_aliases, derive_symlinks
from clew.pipeline.derive.operations import derive_operations
from clew.pipeline.derive.run_io import derive_run_io
from clew.pipeline.derive.runs import derive_runs
from clew.pipeline.derive.statements import (
    derive_asserted_edges,
    derive_edge_sets,
    derive_event_assertions,
    derive_lineage_assertions,
)
from clew.pipeline.large_facets import LARGE_FACET_INFO

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
