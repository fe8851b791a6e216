"""`clew pipeline backfill`: fill the facet tables of raw-only events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.figures import format_count
from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.screen import print_json, show_progress, stderr_console
from clew.home import DataDir

if TYPE_CHECKING:
    from clew.pipeline.backfill import BackfillProgress


@click.command("backfill")
@click.option(
    "--chunk-mb",
    type=click.IntRange(1, 1024),
    default=128,
    show_default=True,
    help="Size of a chunk of the log in MB; each chunk is one commit.",
)
@json_option
@lake_option
@spark_options
def backfill_command(chunk_mb: int, as_json: bool, home: DataDir, master: str, conf: dict[str, str]) -> None:  # noqa: FBT001
    """Fill the facet tables of events ingested with --raw-only, newest first.

    Can be used while a pipeline is running. An interrupted backfill continues where it stopped.
    """
    from clew.pipeline.backfill import run_backfill

    with show_progress() as progress:

        def step(state: BackfillProgress) -> None:
            progress.step(state.events, state.events + state.remaining, state.events)

        result = run_backfill(
            home, chunk_bytes=chunk_mb << 20, on_status=progress, on_progress=step, master=master, conf=conf
        )
    if as_json:
        print_json(result)
    else:
        _print_backfill(result)


def _print_backfill(result: BackfillProgress) -> None:
    console = stderr_console()
    if not result.chunks:
        console.print("Nothing to backfill.")
        return
    throughput = result.events / max(result.seconds, 0.001)
    chunks = format_count(result.chunks, "chunk")
    console.print(f"Backfilled {format_count(result.events, 'event')} in {chunks}, {throughput:,.0f} events/s.")
    if not result.is_derived_refreshed:
        console.print("Derived tables are stale; the running pipeline refreshes them.")
