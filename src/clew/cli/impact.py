"""`clew impact`: what a change would reach."""

from __future__ import annotations

import click

from clew.cli.figures import counted
from clew.cli.graph_text import impact_table
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.cli.walk_options import bounds_options, frames_option
from clew.home import Home
from clew.query.graph_answers import GraphAnswers
from clew.query.lineage import Bounds


@click.command("impact")
@click.argument("name", metavar="DATASET[.COLUMN]", shell_complete=complete_column)
@bounds_options(1000, "columns")
@frames_option
@json_option
@index_option
def command(name: str, bounds: Bounds, has_frames: bool, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show which datasets a change of a column would reach: by its values, or because it has a say in them."""
    with GraphAnswers(home.index) as answers:
        found = answers.impact(name, bounds, has_frames=has_frames)
    if as_json:
        print_json(found)
        return
    if found.affected:
        data().print(impact_table(found))
    told = f"{counted(found.direct, 'dataset')} by values, {counted(found.indirect, 'dataset')} by a say only"
    talk().print(f"{told}{'; there is more: raise --limit' if found.is_cut else ''}.")
