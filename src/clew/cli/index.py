"""`clew index`: what answers are read from."""

from __future__ import annotations

import click

from clew.cli.options import home_option, spark_options
from clew.cli.screen import progress, talk
from clew.errors import ClewError
from clew.home import Home
from clew.lake.delta import Lake
from clew.pipeline.lock import held
from clew.pipeline.work import open_pipeline


@click.group("index")
def command() -> None:
    """Rebuild what answers are read from."""


@command.command("rebuild")
@home_option
@spark_options
def rebuild(home: Home, master: str, conf: dict[str, str]) -> None:
    """Throw the index away and build it anew from the lake."""
    _remove_index(home)
    with progress() as say, open_pipeline(home, say=say, master=master, conf=conf) as pipeline:
        count = pipeline.index.event_count
    talk().print(f"The index holds {count:,} events again.")


def _remove_index(home: Home) -> None:
    if not home.lake.is_dir():
        raise ClewError(
            f"There is no lake at {home.lake} to build an index from.", hint="Run `clew pipeline run` first."
        )
    # Not under a pipeline at work: it would go on writing to the file that has gone.
    with held(home.lake / ".lock"):
        Lake(home.lake).prepare()
        for suffix in ("", "-wal", "-shm"):
            home.index.with_name(home.index.name + suffix).unlink(missing_ok=True)
