"""`clew downstream`: show what depends on a column, dataset, job or run."""

from __future__ import annotations

import click

from clew.cli.graph_text import lineage_summary, lineage_tree
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.cli.walk_options import limits_options, view_options
from clew.home import DataDir
from clew.query.graph.lens import ViewOptions
from clew.query.graph_answers import LineageService
from clew.query.lineage import TraversalLimits


@click.command("downstream")
@click.argument("name", shell_complete=complete_column)
@limits_options(200, "nodes")
@view_options
@json_option
@index_option
def downstream_command(name: str, limits: TraversalLimits, view: ViewOptions, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show what depends on a column, dataset, job or run.

    NAME is DATASET.COLUMN, a dataset, a job, a run id or a session id. A unique suffix of a dataset name is enough.
    """
    with LineageService(home.index) as service:
        result = service.traverse(name, "downstream", limits, view)
    if as_json:
        print_json(result)
    else:
        stdout_console().print(lineage_tree(result))
        stderr_console().print(lineage_summary(result))
