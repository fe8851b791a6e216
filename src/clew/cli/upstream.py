"""`clew upstream`: show where a column, dataset, job or run came from."""

from __future__ import annotations

import click

from clew.cli.graph_text import lineage_summary, lineage_tree
from clew.cli.hops import upstream_tree
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.cli.walk_options import view_options
from clew.home import DataDir
from clew.query.answers import NotebookService
from clew.query.graph.lens import ViewOptions
from clew.query.graph_answers import LineageService
from clew.query.lineage import TraversalLimits
from clew.query.upstream import MAX_DEPTH

_LIMIT_HELP = "Maximum number of jobs, datasets or runs; columns are always traced to their sources."


@click.command("upstream")
@click.argument("name", shell_complete=complete_column)
@click.option("--depth", type=click.IntRange(1), default=MAX_DEPTH, show_default=True, help="Maximum number of hops.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help=_LIMIT_HELP)
@view_options
@json_option
@index_option
def upstream_command(name: str, depth: int, limit: int, view: ViewOptions, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show where a column came from, with the cell and line of code of each step, or the sources of a dataset.

    NAME is DATASET.COLUMN, a dataset, a job, a run id or a session id. A unique suffix of a dataset name is enough:

        clew upstream daily_revenue.parquet.net_revenue
    """
    with LineageService(home.index) as service:
        node = service.resolve(name)
        if node.kind == "column":
            _show_column(name, depth, view, as_json=as_json, home=home)
            return
        result = service.traverse(node.id, "upstream", TraversalLimits(depth, limit), view)
    if as_json:
        print_json(result)
    else:
        stdout_console().print(lineage_tree(result))
        stderr_console().print(lineage_summary(result))


def _show_column(name: str, depth: int, view: ViewOptions, *, as_json: bool, home: DataDir) -> None:
    with NotebookService(home.index) as service:
        column = service.upstream(name, depth=depth, is_collapsed=not view.include_frames)
    if as_json:
        print_json(column)
    else:
        stdout_console().print(upstream_tree(column))
