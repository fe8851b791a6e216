"""What follows from the events: each module one step, the same over a batch and over the whole lake."""

from __future__ import annotations

from typing import Final

from clew.pipeline.derive.cell_executions import cell_executions
from clew.pipeline.derive.column_edges import column_edges
from clew.pipeline.derive.contents import schemas
from clew.pipeline.derive.current_facets import (
    current_dataset_facets,
    current_job_facets,
    current_run_facets,
)
from clew.pipeline.derive.dataset_edges import dataset_edges
from clew.pipeline.derive.dataset_versions import dataset_versions
from clew.pipeline.derive.datasets import datasets, lifecycle_changes, renames
from clew.pipeline.derive.derivation import Step
from clew.pipeline.derive.implied_io import entries, implied_io
from clew.pipeline.derive.job_edges import job_edges, job_links
from clew.pipeline.derive.job_versions import job_versions, said_job_versions
from clew.pipeline.derive.jobs import jobs
from clew.pipeline.derive.labels import owners, tags
from clew.pipeline.derive.mentions import mentioned_jobs, mentioned_runs, mentions
from clew.pipeline.derive.nodes import nodes, symlinks
from clew.pipeline.derive.operations import operations
from clew.pipeline.derive.run_io import run_io
from clew.pipeline.derive.runs import runs
from clew.pipeline.derive.statements import edge_sets, said_statements, stated_edges, statements
from clew.pipeline.large_facets import LOOKS

# What other steps ask for, and no reader of the lake.
INNER_STEPS: Final[dict[str, Step]] = {
    "said_statements": said_statements,
    "stated_edges": stated_edges,
    "statements": statements,
    "edge_sets": edge_sets,
    "entries": entries,
    "implied_io": implied_io,
    "symlinks": symlinks,
    "lifecycle_changes": lifecycle_changes,
    "renames": renames,
    "said_job_versions": said_job_versions,
    "mentions": mentions,
    "mentioned_runs": mentioned_runs,
    "mentioned_jobs": mentioned_jobs,
}
LAKE_STEPS: Final[dict[str, Step]] = {
    "runs": runs,
    "jobs": jobs,
    "job_versions": job_versions,
    "datasets": datasets,
    "dataset_versions": dataset_versions,
    "schemas": schemas,
    "tags": tags,
    "owners": owners,
    "run_io": run_io,
    "job_edges": job_edges,
    "job_links": job_links,
    "dataset_edges": dataset_edges,
    "column_edges": column_edges,
    "nodes": nodes,
    "current_run_facets": current_run_facets,
    "current_job_facets": current_job_facets,
    "current_dataset_facets": current_dataset_facets,
    "cell_executions": cell_executions,
    "operations": operations,
}
# What several steps ask for.
SHARED: Final = frozenset(
    {
        LOOKS,
        "run_io",
        "runs",
        "cell_executions",
        "said_job_versions",
        "mentions",
        "said_statements",
        "stated_edges",
        "statements",
        "entries",
        "implied_io",
        "lifecycle_changes",
        "nodes",
    }
)
