"""`clew export`: lineage in a form that others can read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from clew.cli.names import complete_column
from clew.cli.options import json_option, lake_option
from clew.cli.screen import print_json, talk
from clew.cli.walk_options import bounds_options, sight_options
from clew.errors import ClewError, UsageError
from clew.home import Home
from clew.query import drawings
from clew.query.answers import Answers
from clew.query.graph.lens import Sight
from clew.query.graph.walk import Direction
from clew.query.graph_answers import GraphAnswers
from clew.query.lineage import Bounds, Lineage

_ENDINGS = {
    ".html": "html",
    ".svg": "svg",
    ".mmd": "mermaid",
    ".md": "mermaid",
    ".dot": "dot",
    ".gv": "dot",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}
_FORMS = ("html", "svg", "mermaid", "dot", "ndjson", "parquet")
_TEXTS: dict[str, Callable[[Lineage], str]] = {"svg": drawings.svg, "mermaid": drawings.mermaid, "dot": drawings.dot}


@click.command("export")
@click.argument("name", shell_complete=complete_column)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write this file; else print it.")
@click.option("--format", "form", type=click.Choice(_FORMS), help="The form, if the name of the file does not tell.")
@click.option(
    "--direction",
    type=click.Choice(("upstream", "downstream", "both")),
    default="both",
    show_default=True,
    help="Which way to go from NAME.",
)
@bounds_options(200, "nodes")
@sight_options
@json_option
@lake_option
def command(
    name: str,
    out: Path | None,
    form: str | None,
    direction: Direction,
    bounds: Bounds,
    sight: Sight,
    as_json: bool,  # noqa: FBT001
    home: Home,
) -> None:
    """Write the lineage of a column, a dataset, a job or a run for other tools.

    Of a notebook's session, html is its whole page. ndjson are the OpenLineage events of a run, or of all runs of a
    session, from the lake.
    """
    chosen = form or _form_of(out)
    if as_json and out is None:
        raise UsageError("--json tells of a file that was written.", hint="Name it with --out.")
    if chosen == "ndjson":
        body = _events(home, name)
    elif chosen == "html" and _is_session(home, name):
        body = _page(home, name)
    else:
        with GraphAnswers(home.index) as answers:
            found = answers.walk(name, direction, bounds, sight)
        body = _drawn(found, chosen)
    _write(out, body)
    if as_json:
        print_json({"form": chosen, "file": str(out), "bytes": len(body)})
    elif out is not None:
        talk().print(f"Written: {out}")


def _form_of(out: Path | None) -> str:
    form = None if out is None else _ENDINGS.get(out.suffix)
    if form is None:
        hint = f"Give --format: {', '.join(_FORMS)}."
        raise UsageError(
            "The form is not told by a file's name." if out is None else f"{out} tells no form.", hint=hint
        )
    return form


def _drawn(found: Lineage, form: str) -> bytes:
    if form == "parquet":
        from clew.cli.edge_files import parquet

        return parquet(found)
    if form == "html":
        from clew.reports.pages import document

        return document(f"Lineage of {drawings.label(found.nodes[0])}", drawings.svg(found)).encode()
    return _TEXTS[form](found).encode()


def _is_session(home: Home, name: str) -> bool:
    with Answers(home.index) as answers:
        return answers.is_session(name)


def _page(home: Home, session: str) -> bytes:
    from clew.api.export import page_html
    from clew.query.run_page import run_page

    with Answers(home.index) as answers:
        return page_html(run_page(answers.run(session))).encode()


def _events(home: Home, name: str) -> bytes:
    from clew.lake.delta import Lake
    from clew.lake.format import require_lake
    from clew.lake.run_events import events_of

    with GraphAnswers(home.index) as answers:
        run, session = answers.run_and_session(name)
    require_lake(home.lake)
    return b"".join(body + b"\n" for body in events_of(Lake(home.lake), run, session))


def _write(out: Path | None, body: bytes) -> None:
    if out is None:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    try:
        out.write_bytes(body)
    except OSError as fault:
        raise ClewError(f"{out} cannot be written: {fault.strerror}.", hint="Name another file with --out.") from fault
