"""`clew search`: search jobs, datasets and columns."""

from __future__ import annotations

import sys

import click

from clew.cli.figures import format_count
from clew.cli.graph_text import hit_table
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.home import DataDir
from clew.query.graph_answers import LineageService


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of results.")
@click.option("--wait-for-index", is_flag=True, help="Wait until new events are in the search index.")
@json_option
@index_option
def search_command(words: tuple[str, ...], limit: int, wait_for_index: bool, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Search jobs and datasets by name, column, description, tag, code and facets, and runs by id.

    A result contains every word, or a word that starts with it. Exits with 1 if there are no results.
    """
    with LineageService(home.index) as service:
        result = service.search(" ".join(words), limit=limit, wait_for_index=wait_for_index)
    if as_json:
        print_json(result)
    elif result.hits:
        stdout_console().print(hit_table(result))
        shown = len(result.hits)
        stderr_console().print(
            f"{format_count(result.total, 'result')}{f', the first {shown:,} shown' if shown < result.total else ''}."
        )
    else:
        suggestions = f" Did you mean {', '.join(result.did_you_mean)}?" if result.did_you_mean else ""
        stderr_console().print(f"No results.{suggestions}")
    if not result.is_complete:
        stderr_console().print(
            "New events are not fully indexed yet; only their names were searched. Use --wait-for-index."
        )
    sys.exit(0 if result.hits else 1)
