"""`clew index`: what answers are read from."""

from __future__ import annotations

import click

from clew.cli.facet_order import facet_order_option
from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.screen import print_json, progress, talk
from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import Home
from clew.index.places import store_of
from clew.lake.delta import Lake
from clew.lake.storage import storage_at
from clew.pipeline.lock import BACKFILL_LOCK, held
from clew.pipeline.work import open_pipeline


@click.group("index")
def command() -> None:
    """Rebuild what answers are read from."""


@command.command("rebuild")
@facet_order_option("Given here, it is changed for good, and derived tables are written anew.")
@json_option
@lake_option
@spark_options
def rebuild(facet_order: FacetOrder | None, as_json: bool, home: Home, master: str, conf: dict[str, str]) -> None:  # noqa: FBT001
    """Build the index anew from the lake; the old one answers until the new one is whole."""
    _prepare(home, facet_order)
    with progress() as say, open_pipeline(home, say=say, master=master, conf=conf, is_rebuilt=True) as pipeline:
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    if as_json:
        print_json({"events": count})
    else:
        talk().print(f"The index holds {count:,} events again.")


def _prepare(home: Home, facet_order: FacetOrder | None) -> None:
    if not storage_at(home.lake).has_folder():
        raise ClewError(
            f"There is no lake at {home.lake} to build an index from.", hint="Run `clew pipeline run` first."
        )
    with held(home.lake / ".lock"), held(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.prepare()
        if facet_order is not None:
            # The index goes first: it knows only the order before, and must not be taken for one of the new.
            store_of(home.index).remove()
            lake.set_facet_order(facet_order)
