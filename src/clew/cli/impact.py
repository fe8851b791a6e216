"""`clew impact`: show what is affected by changing a column."""

from __future__ import annotations

import click

from clew.cli.figures import format_count
from clew.cli.graph_text import impact_table
from clew.cli.names import complete_column
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.cli.walk_options import frames_option, limits_options
from clew.home import DataDir
from clew.query.graph_answers import LineageService
from clew.query.lineage import TraversalLimits


@click.command("impact")
@click.argument("name", metavar="DATASET[.COLUMN]", shell_complete=complete_column)
@limits_options(1000, "columns")
@frames_option
@json_option
@index_option
def impact_command(name: str, limits: TraversalLimits, include_frames: bool, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show which datasets are affected by changing a column.

    Directly: its values are used. Indirectly: it is used to filter, join, group or sort.
    """
    with LineageService(home.index) as service:
        result = service.analyze_impact(name, limits, include_frames=include_frames)
    if as_json:
        print_json(result)
        return
    if result.affected:
        stdout_console().print(impact_table(result))
    summary = f"{format_count(result.direct, 'dataset')} affected directly, {result.indirect:,} indirectly"
    stderr_console().print(f"{summary}{'; truncated, raise --limit' if result.is_truncated else ''}.")
