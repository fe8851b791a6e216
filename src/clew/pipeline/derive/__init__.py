"""What follows from the events: each module one step, the same over a batch and over the whole lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from clew.pipeline.derive.cell_executions import cell_executions
from clew.pipeline.derive.column_edges import column_edges
from clew.pipeline.derive.current_facets import current_dataset_facets, current_job_facets, current_run_facets
from clew.pipeline.derive.datasets import datasets
from clew.pipeline.derive.job_edges import job_edges
from clew.pipeline.derive.jobs import jobs
from clew.pipeline.derive.operations import operations
from clew.pipeline.derive.run_io import run_io
from clew.pipeline.derive.runs import runs

Tables = Mapping[str, DataFrame]
Step = Callable[[Tables], DataFrame]

LAKE_STEPS: Final[dict[str, Step]] = {
    "runs": runs,
    "jobs": jobs,
    "datasets": datasets,
    "run_io": run_io,
    "job_edges": job_edges,
    "column_edges": column_edges,
    "cell_executions": cell_executions,
    "operations": operations,
}
INDEX_STEPS: Final[dict[str, Step]] = {
    **LAKE_STEPS,
    "current_run_facets": current_run_facets,
    "current_job_facets": current_job_facets,
    "current_dataset_facets": current_dataset_facets,
}
