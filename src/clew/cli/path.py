"""`clew path`: how one thing leads to another."""

from __future__ import annotations

import sys

import click

from clew.cli.graph_text import column_path_text, path_text
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.cli.walk_options import sight_options
from clew.errors import UsageError
from clew.home import Home
from clew.query.graph.lens import Sight
from clew.query.graph_answers import ColumnPath, GraphAnswers
from clew.query.lineage import Path as NodePath


@click.command("path")
@click.argument("start", metavar="A", shell_complete=complete_column)
@click.argument("end", metavar="B", shell_complete=complete_column)
@sight_options
@json_option
@index_option
def command(start: str, end: str, sight: Sight, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show a shortest way between two columns, or between two datasets or jobs, along the flow of data.

    Ends with 1 if there is none, whichever of the two is taken for the source.
    """
    with GraphAnswers(home.index) as answers:
        meant = [answers.meant(name) for name in (start, end)]
        kinds = {one.kind for one in meant}
        if "run" in kinds or ("column" in kinds and len(kinds) > 1):
            raise UsageError(f"{start} and {end} are not of a kind.", hint="Name two columns, or two datasets or jobs.")
        if kinds == {"column"}:
            found: ColumnPath | NodePath = answers.column_path(start, end, sight)
        else:
            found = answers.path(meant[0].id, meant[1].id, sight)
    if as_json:
        print_json(found)
    elif found.edges:
        lines = column_path_text(found) if isinstance(found, ColumnPath) else path_text(found)
        for line in lines:
            data().print(line)
    else:
        talk().print(f"Nothing leads from {start} to {end}, nor back.")
    sys.exit(0 if found.edges else 1)
