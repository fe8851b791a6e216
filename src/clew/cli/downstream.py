"""`clew downstream`: what a column, a dataset, a job or a run went into."""

from __future__ import annotations

import click

from clew.cli.graph_text import walk_summary, walk_tree
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.cli.walk_options import bounds_options, sight_options
from clew.home import Home
from clew.query.graph.lens import Sight
from clew.query.graph_answers import GraphAnswers
from clew.query.lineage import Bounds


@click.command("downstream")
@click.argument("name", shell_complete=complete_column)
@bounds_options(200, "nodes")
@sight_options
@json_option
@index_option
def command(name: str, bounds: Bounds, sight: Sight, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show what a column, a dataset, a job or a run went into.

    NAME is DATASET.COLUMN, a dataset, a job, or the id of a run or a session; the end of a dataset's name will do.
    """
    with GraphAnswers(home.index) as answers:
        found = answers.walk(name, "downstream", bounds, sight)
    if as_json:
        print_json(found)
    else:
        data().print(walk_tree(found))
        talk().print(walk_summary(found))
