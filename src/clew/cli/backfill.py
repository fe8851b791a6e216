"""`clew pipeline backfill`: facets of events that were taken in raw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.figures import counted
from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.screen import print_json, progress, talk
from clew.home import Home

if TYPE_CHECKING:
    from clew.pipeline.backfill import Backfilled


@click.command("backfill")
@click.option(
    "--chunk-mb",
    type=click.IntRange(1, 1024),
    default=128,
    show_default=True,
    help="How much of the log a chunk covers: what is filled in and noted at once.",
)
@json_option
@lake_option
@spark_options
def command(chunk_mb: int, as_json: bool, home: Home, master: str, conf: dict[str, str]) -> None:  # noqa: FBT001
    """Fill in the facets of events that were taken in with --raw-only, the newest first.

    May be done while a pipeline is at work. Stopped and called again, it goes on where it stopped.
    """
    from clew.pipeline.backfill import backfill

    with progress() as tell:

        def step(done: Backfilled) -> None:
            tell.step(done.events, done.events + done.left, done.events)

        done = backfill(home, chunk_bytes=chunk_mb << 20, say=tell, report=step, master=master, conf=conf)
    if as_json:
        print_json(done)
    else:
        _report(done)


def _report(done: Backfilled) -> None:
    console = talk()
    if not done.chunks:
        console.print("All events have their facets.")
        return
    pace = done.events / max(done.seconds, 0.001)
    chunks = counted(done.chunks, "chunk")
    console.print(f"Facets of {counted(done.events, 'event')} filled in, in {chunks}, {pace:,.0f} events/s.")
    if not done.is_refreshed:
        console.print("Derived tables are older than the facets: the pipeline at work refreshes them.")
