"""`clew diff`: compare two runs, or two versions of a dataset."""

from __future__ import annotations

import click

from clew.cli.graph_text import run_diff_text, version_diff_text
from clew.cli.names import complete_dataset, complete_session
from clew.cli.options import index_option, json_option
from clew.cli.screen import print_json, stderr_console, stdout_console
from clew.home import DataDir
from clew.query.diff import RunDiff
from clew.query.graph_answers import LineageService


@click.command("diff")
@click.argument("left", metavar="RUN", required=False, shell_complete=complete_session)
@click.argument("right", metavar="RUN", required=False, shell_complete=complete_session)
@click.option(
    "--dataset", shell_complete=complete_dataset, help="Compare versions of this dataset (default: the last two)."
)
@json_option
@index_option
def diff_command(left: str | None, right: str | None, dataset: str | None, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Compare two runs: state, duration, data, columns, lineage and code.

    RUN is a run id or a session id. With --dataset, the arguments are versions and are optional.
    """
    if dataset is None and (left is None or right is None):
        raise click.UsageError("Pass two runs, or a dataset with --dataset.")
    with LineageService(home.index) as service:
        result = (
            service.diff_runs(str(left), str(right)) if dataset is None else service.diff_versions(dataset, left, right)
        )
    if as_json:
        print_json(result)
        return
    lines = list(run_diff_text(result) if isinstance(result, RunDiff) else version_diff_text(result))
    for line in lines:
        stdout_console().print(line)
    if not lines:
        stderr_console().print("No differences.")
