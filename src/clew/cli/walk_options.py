"""Options of graph traversals: `--depth`, `--limit`, `--roll-up` and `--all`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from clew.query.graph.lens import ViewOptions
from clew.query.lineage import TraversalLimits

Command = Callable[..., Any]

frames_option = click.option("--all", "include_frames", is_flag=True, help="Include in-memory DataFrames.")


def limits_options(default_limit: int, noun: str) -> Callable[[Command], Command]:
    """Add `--depth` and `--limit`; the command receives `limits`."""

    def with_options(command: Command) -> Command:
        @wraps(command)
        def with_limits(*args: Any, depth: int, limit: int, **kwargs: Any) -> Any:
            return command(*args, limits=TraversalLimits(depth, limit), **kwargs)

        depth_option = click.option(
            "--depth", type=click.IntRange(1, 100), default=20, show_default=True, help="Maximum number of hops."
        )
        help_text = f"Maximum number of {noun}."
        limit_option = click.option(
            "--limit", type=click.IntRange(1, 10_000), default=default_limit, show_default=True, help=help_text
        )
        return depth_option(limit_option(with_limits))

    return with_options


def view_options(command: Command) -> Command:
    """Add `--roll-up` and `--all`; the command receives `view`."""

    @wraps(command)
    def with_view(*args: Any, roll_up: Any, include_frames: bool, **kwargs: Any) -> Any:
        return command(*args, view=ViewOptions(roll_up=roll_up, include_frames=include_frames), **kwargs)

    help_text = "Group jobs by their parent or root job (for a notebook: by cell, or by notebook)."
    choice = click.Choice(("none", "parent", "root"))
    roll_up_option = click.option("--roll-up", type=choice, default="none", show_default=True, help=help_text)
    return roll_up_option(frames_option(with_view))
