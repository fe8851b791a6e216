"""`clew search`: jobs and datasets by what is written of them."""

from __future__ import annotations

import sys

import click

from clew.cli.figures import counted
from clew.cli.graph_text import hit_table
from clew.cli.options import index_option, json_option
from clew.cli.screen import data, print_json, talk
from clew.home import Home
from clew.query.graph_answers import GraphAnswers


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many at most.")
@click.option("--complete", "is_patient", is_flag=True, help="Search all that is new, however long it takes.")
@json_option
@index_option
def command(words: tuple[str, ...], limit: int, is_patient: bool, as_json: bool, home: Home) -> None:  # noqa: FBT001
    """Find jobs and datasets by their names, columns, descriptions, tags, code and facets; a run by its id.

    Every word must be found, or the beginning of one. Ends with 1 if nothing was.
    """
    with GraphAnswers(home.index) as answers:
        found = answers.search(" ".join(words), limit=limit, is_patient=is_patient)
    if as_json:
        print_json(found)
    elif found.hits:
        data().print(hit_table(found))
        shown = len(found.hits)
        talk().print(f"{counted(found.total, 'hit')}{f', the first {shown:,} shown' if shown < found.total else ''}.")
    else:
        meant = f" Did you mean {', '.join(found.did_you_mean)}?" if found.did_you_mean else ""
        talk().print(f"Nothing was found.{meant}")
    if not found.is_complete:
        talk().print("Much is new, and only its likeliest names were searched: --complete searches all of it.")
    sys.exit(0 if found.hits else 1)
