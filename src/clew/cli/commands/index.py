"""`clew index`."""

from __future__ import annotations

import click

from clew.cli.options import facet_order_option, json_option, lake_option, spark_options
from clew.cli.output import show_progress, stderr_console
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.events.facets import FacetOrder


@click.group("index")
def index_group() -> None:
    """Manage the query index."""


@index_group.command("rebuild")
@facet_order_option("Changes the setting of the lake, and rewrites derived tables.")
@json_option(lambda result: stderr_console().print(f"Rebuilt the index: {result['events']:,} events."))
@lake_option
@spark_options
def index_rebuild(facet_order: FacetOrder | None, home: DataDir, master: str, conf: dict[str, str]) -> dict[str, int]:
    """Rebuild the index from the lake. The old index is used until the new one is complete."""
    from clew.pipeline.pipeline import open_pipeline

    _prepare_rebuild(home, facet_order)
    with (
        show_progress() as progress,
        open_pipeline(home, on_progress=progress, master=master, conf=conf, rebuild=True) as pipeline,
    ):
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    return {"events": count}


def _prepare_rebuild(home: DataDir, facet_order: FacetOrder | None) -> None:
    from clew.index.backends import open_backend
    from clew.lake.lake import Lake
    from clew.lake.storage import open_storage
    from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock

    if not open_storage(home.lake).has_folder():
        raise ClewError(f"There is no lake at {home.lake}.", hint="Run `clew pipeline run` first.")
    with acquire_lock(home.lake / PIPELINE_LOCK), acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.create_or_validate()
        if facet_order is not None:
            # Remove the index first: it was built with the old order.
            open_backend(home.index).remove()
            lake.set_facet_order(facet_order)
