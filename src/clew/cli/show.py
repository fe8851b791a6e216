"""`clew show`: what happened in a notebook run."""

from __future__ import annotations

import click

from clew.cli.names import complete_session
from clew.cli.options import index_option, json_option
from clew.cli.runs_text import cell_table, summary
from clew.cli.screen import data, print_json
from clew.home import Home
from clew.query.answers import Answers
from clew.query.model import NotebookRun
from clew.query.names import NothingRecordedError


@click.command("show")
@click.argument("session", required=False, shell_complete=complete_session)
@json_option
@index_option
def command(session: str | None, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Show what happened in a notebook run: its cells, their cost, what was read and written.

    SESSION is a run's id; without it the last run is shown.
    """
    with Answers(home.index) as answers:
        run = _run(answers, session)
    if as_json:
        print_json(run)
        return
    console = data()
    console.print(summary(run))
    console.print(cell_table(run))


def _run(answers: Answers, session: str | None) -> NotebookRun:
    run = answers.latest() if session is None else answers.run(session)
    if run is None:
        raise NothingRecordedError.yet()
    return run
