"""`clew index`: what answers are read from."""

from __future__ import annotations

import click

from clew.cli.facet_order import facet_order_option
from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.screen import print_json, progress, talk
from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import Home
from clew.index.store import remove
from clew.lake.delta import Lake
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
    """Throw the index away and build it anew from the lake."""
    _remove_index(home, facet_order)
    with progress() as say, open_pipeline(home, say=say, master=master, conf=conf) as pipeline:
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    if as_json:
        print_json({"events": count})
    else:
        talk().print(f"The index holds {count:,} events again.")


def _remove_index(home: Home, facet_order: FacetOrder | None) -> None:
    if not home.lake.is_dir():
        raise ClewError(
            f"There is no lake at {home.lake} to build an index from.", hint="Run `clew pipeline run` first."
        )
    with held(home.lake / ".lock"), held(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.prepare()
        remove(home.index)
        if facet_order is not None:
            lake.set_facet_order(facet_order)
