"""`clew show`: show a notebook run."""

from __future__ import annotations

import click

from clew.cli.names import complete_session
from clew.cli.options import index_option, json_option
from clew.cli.runs_text import cell_table, run_summary
from clew.cli.screen import print_json, stdout_console
from clew.home import DataDir
from clew.query.answers import NotebookService
from clew.query.model import NotebookRun
from clew.query.names import EmptyIndexError


@click.command("show")
@click.argument("session", required=False, shell_complete=complete_session)
@json_option
@index_option
def show_command(session: str | None, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show a notebook run: its cells with time and memory, and the datasets read and written.

    SESSION is a session id; by default the latest run is shown.
    """
    with NotebookService(home.index) as service:
        run = _load_run(service, session)
    if as_json:
        print_json(run)
        return
    console = stdout_console()
    console.print(run_summary(run))
    console.print(cell_table(run))


def _load_run(service: NotebookService, session: str | None) -> NotebookRun:
    run = service.latest_run() if session is None else service.run(session)
    if run is None:
        raise EmptyIndexError.no_notebook_runs()
    return run
