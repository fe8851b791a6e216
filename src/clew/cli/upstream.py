"""`clew upstream`: where a column came from, or what a dataset, a job or a run is made from."""

from __future__ import annotations

import click

from clew.cli.graph_text import walk_summary, walk_tree
from clew.cli.hops import tree
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.cli.walk_options import sight_options
from clew.home import Home
from clew.query.answers import Answers
from clew.query.graph.lens import Sight
from clew.query.graph_answers import GraphAnswers
from clew.query.lineage import Bounds
from clew.query.upstream import MOST_HOPS

_LIMIT = "How many jobs, datasets or runs at most; a column is followed to its sources."


@click.command("upstream")
@click.argument("name", shell_complete=complete_column)
@click.option("--depth", type=click.IntRange(1), default=MOST_HOPS, show_default=True, help="How many hops back.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help=_LIMIT)
@sight_options
@json_option
@index_option
def command(name: str, depth: int, limit: int, sight: Sight, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show where a column came from, with the cell and line of code on each hop; or what a dataset is made from.

    NAME is DATASET.COLUMN, a dataset, a job, or the id of a run or a session; the end of a dataset's name will do:

        clew upstream daily_revenue.parquet.net_revenue
    """
    with GraphAnswers(home.index) as answers:
        meant = answers.meant(name)
        if meant.kind == "column":
            _show_column(name, depth, sight, as_json=as_json, home=home)
            return
        found = answers.walk(meant.id, "upstream", Bounds(depth, limit), sight)
    if as_json:
        print_json(found)
    else:
        data().print(walk_tree(found))
        talk().print(walk_summary(found))


def _show_column(name: str, depth: int, sight: Sight, *, as_json: bool, home: Home) -> None:
    with Answers(home.index) as answers:
        hop = answers.upstream(name, depth=depth, is_folded=not sight.has_frames)
    if as_json:
        print_json(hop)
    else:
        data().print(tree(hop))
