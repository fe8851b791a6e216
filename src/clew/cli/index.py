"""`clew index`: manage the query index."""

from __future__ import annotations

import click

from clew.cli.facet_order import facet_order_option
from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.screen import print_json, show_progress, stderr_console
from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import DataDir
from clew.index.places import open_backend
from clew.lake.delta import Lake
from clew.lake.storage import open_storage
from clew.pipeline.lock import BACKFILL_LOCK, acquire_lock
from clew.pipeline.work import open_pipeline


@click.group("index")
def index_group() -> None:
    """Manage the query index."""


@index_group.command("rebuild")
@facet_order_option("Changes the setting of the lake, and rewrites derived tables.")
@json_option
@lake_option
@spark_options
def index_rebuild(
    *, facet_order: FacetOrder | None, as_json: bool, home: DataDir, master: str, conf: dict[str, str]
) -> None:
    """Rebuild the index from the lake. The old index is used until the new one is complete."""
    _prepare_rebuild(home, facet_order)
    with (
        show_progress() as progress,
        open_pipeline(home, on_progress=progress, master=master, conf=conf, rebuild=True) as pipeline,
    ):
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    if as_json:
        print_json({"events": count})
    else:
        stderr_console().print(f"Rebuilt the index: {count:,} events.")


def _prepare_rebuild(home: DataDir, facet_order: FacetOrder | None) -> None:
    if not open_storage(home.lake).has_folder():
        raise ClewError(f"There is no lake at {home.lake}.", hint="Run `clew pipeline run` first.")
    with acquire_lock(home.lake / ".lock"), acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.create_or_validate()
        if facet_order is not None:
            # Remove the index first: it was built with the old order.
            open_backend(home.index).remove()
            lake.set_facet_order(facet_order)
