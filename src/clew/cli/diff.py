"""`clew diff`: what differs between two runs, or between two versions of a dataset."""

from __future__ import annotations

import click

from clew.cli.graph_text import run_diff_text, version_diff_text
from clew.cli.names import complete_dataset, complete_session
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.home import Home
from clew.query.diff import RunDiff
from clew.query.graph_answers import GraphAnswers


@click.command("diff")
@click.argument("left", metavar="RUN", required=False, shell_complete=complete_session)
@click.argument("right", metavar="RUN", required=False, shell_complete=complete_session)
@click.option("--dataset", shell_complete=complete_dataset, help="Compare versions of this dataset; the last two.")
@json_option
@index_option
def command(left: str | None, right: str | None, dataset: str | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show what differs between two runs: state, time, data, columns, lineage and code.

    RUN is the runId of events or the id of a session. With --dataset they name versions, and may be left out.
    """
    if dataset is None and (left is None or right is None):
        raise click.UsageError("Name two runs, or a dataset with --dataset.")
    with GraphAnswers(home.index) as answers:
        found = (
            answers.run_diff(str(left), str(right)) if dataset is None else answers.version_diff(dataset, left, right)
        )
    if as_json:
        print_json(found)
        return
    lines = list(run_diff_text(found) if isinstance(found, RunDiff) else version_diff_text(found))
    for line in lines:
        data().print(line)
    if not lines:
        talk().print("Nothing differs.")
