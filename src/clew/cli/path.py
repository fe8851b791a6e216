"""`clew path`: show the path between two columns, datasets or jobs."""

from __future__ import annotations

import sys

import click

from clew.cli.graph_text import column_path_text, path_text
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.cli.walk_options import view_options
from clew.errors import UsageError
from clew.home import DataDir
from clew.query.graph.lens import ViewOptions
from clew.query.graph_answers import ColumnPath, LineageService
from clew.query.lineage import PathResult as NodePath


@click.command("path")
@click.argument("start", metavar="A", shell_complete=complete_column)
@click.argument("end", metavar="B", shell_complete=complete_column)
@view_options
@json_option
@index_option
def path_command(start: str, end: str, view: ViewOptions, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show the shortest path between two columns, or between two datasets or jobs, along the data flow.

    Both directions are tried. Exits with 1 if there is no path.
    """
    with LineageService(home.index) as service:
        resolved = [service.resolve(name) for name in (start, end)]
        kinds = {node.kind for node in resolved}
        if "run" in kinds or ("column" in kinds and len(kinds) > 1):
            raise UsageError(
                f"Cannot find a path between {start} ({resolved[0].kind}) and {end} ({resolved[1].kind}).",
                hint="Pass two columns, or two datasets or jobs.",
            )
        if kinds == {"column"}:
            result: ColumnPath | NodePath = service.shortest_column_path(start, end, view)
        else:
            result = service.shortest_path(resolved[0].id, resolved[1].id, view)
    if as_json:
        print_json(result)
    elif result.edges:
        lines = column_path_text(result) if isinstance(result, ColumnPath) else path_text(result)
        for line in lines:
            stdout_console().print(line)
    else:
        stderr_console().print(f"No path between {start} and {end}.")
    sys.exit(0 if result.edges else 1)
