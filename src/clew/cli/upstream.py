"""`clew upstream`: where a column came from."""

from __future__ import annotations

import click

from clew.cli.hops import tree
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json
from clew.home import Home
from clew.query.answers import Answers
from clew.query.upstream import MOST_HOPS


@click.command("upstream")
@click.argument("column", metavar="DATASET.COLUMN", shell_complete=complete_column)
@click.option("--depth", type=int, default=MOST_HOPS, show_default=True, help="How many hops back.")
@click.option("--all", "is_whole", is_flag=True, help="Show frames that no variable held, too.")
@json_option
@index_option
def command(column: str, depth: int, is_whole: bool, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show where a column came from, with the cell and line of code on each hop.

    The dataset may be named by the end of its name:

        clew upstream daily_revenue.parquet.net_revenue
    """
    with Answers(home.index) as answers:
        hop = answers.upstream(column, depth=depth, is_folded=not is_whole)
    if as_json:
        print_json(hop)
    else:
        data().print(tree(hop))
