"""Options of walks over the graph: how far to go, and what to see."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from clew.query.graph.lens import Sight
from clew.query.lineage import Bounds

Command = Callable[..., Any]

frames_option = click.option(
    "--all", "has_frames", is_flag=True, help="Show frames that were only ever in memory, too."
)


def bounds_options(most: int, what: str) -> Callable[[Command], Command]:
    """`--depth` and `--limit`, given to the command as `bounds`."""

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_bounds(*args: Any, depth: int, limit: int, **kwargs: Any) -> Any:
            return command(*args, bounds=Bounds(depth, limit), **kwargs)

        hops = click.option(
            "--depth", type=click.IntRange(1, 100), default=20, show_default=True, help="How many hops."
        )
        text = f"How many {what} at most."
        nodes = click.option("--limit", type=click.IntRange(1, 10_000), default=most, show_default=True, help=text)
        return hops(nodes(with_bounds))

    return with_options


def sight_options(command: Command) -> Command:
    """`--roll-up` and `--all`, given to the command as `sight`."""

    @wraps(command)
    def with_sight(*args: Any, roll_up: Any, has_frames: bool, **kwargs: Any) -> Any:
        return command(*args, sight=Sight(roll_up=roll_up, has_frames=has_frames), **kwargs)

    text = "Show a job as the one that started it, or as the first of those: of a notebook its cells, or itself."
    choice = click.Choice(("none", "parent", "root"))
    roll_up_option = click.option("--roll-up", type=choice, default="none", show_default=True, help=text)
    return roll_up_option(frames_option(with_sight))
