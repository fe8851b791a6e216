"""`clew export`: export lineage to a file for other tools."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from clew.cli.names import complete_column
from clew.cli.options import json_option, lake_option
from clew.cli.screen import print_json, stderr_console
from clew.cli.walk_options import limits_options, view_options
from clew.errors import ClewError, UsageError
from clew.home import DataDir
from clew.query import drawings
from clew.query.answers import NotebookService
from clew.query.graph.lens import ViewOptions
from clew.query.graph.walk import Direction
from clew.query.graph_answers import LineageService
from clew.query.lineage import LineageResult, TraversalLimits

_FORMAT_BY_SUFFIX = {
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
_FORMATS = ("html", "svg", "mermaid", "dot", "ndjson", "parquet")
_RENDERERS: dict[str, Callable[[LineageResult], str]] = {
    "svg": drawings.render_svg,
    "mermaid": drawings.render_mermaid,
    "dot": drawings.render_dot,
}


@click.command("export")
@click.argument("name", shell_complete=complete_column)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default: stdout).")
@click.option(
    "--format", "output_format", type=click.Choice(_FORMATS), help="Output format (default: from the file extension)."
)
@click.option(
    "--direction",
    type=click.Choice(("upstream", "downstream", "both")),
    default="both",
    show_default=True,
    help="Direction to traverse from NAME.",
)
@limits_options(200, "nodes")
@view_options
@json_option
@lake_option
def export_command(
    name: str,
    out: Path | None,
    output_format: str | None,
    direction: Direction,
    limits: TraversalLimits,
    view: ViewOptions,
    as_json: bool,  # noqa: FBT001
    home: DataDir,
) -> None:
    """Export the lineage of a column, dataset, job or run.

    For a notebook session, html is the complete run page. ndjson exports the OpenLineage events of a run, or of all
    runs of a session, from the lake.
    """
    chosen = output_format or _infer_format(out)
    if as_json and out is None:
        raise UsageError("--json requires --out.", hint="Pass the output file with --out.")
    if chosen == "ndjson":
        body = _openlineage_events(home, name)
    elif chosen == "html" and _is_session(home, name):
        body = _session_page(home, name)
    else:
        with LineageService(home.index) as service:
            result = service.traverse(name, direction, limits, view)
        body = _render(result, chosen)
    _write_output(out, body)
    if as_json:
        print_json({"format": chosen, "file": str(out), "bytes": len(body)})
    elif out is not None:
        stderr_console().print(f"Wrote {out}")


def _infer_format(out: Path | None) -> str:
    output_format = None if out is None else _FORMAT_BY_SUFFIX.get(out.suffix)
    if output_format is None:
        hint = f"Pass --format: {', '.join(_FORMATS)}."
        raise UsageError(
            "Cannot infer the format." if out is None else f"Cannot infer the format from {out}.", hint=hint
        )
    return output_format


def _render(result: LineageResult, output_format: str) -> bytes:
    if output_format == "parquet":
        from clew.cli.edge_files import edges_to_parquet

        return edges_to_parquet(result)
    if output_format == "html":
        from clew.reports.pages import render_page

        return render_page(f"Lineage of {drawings.node_label(result.nodes[0])}", drawings.render_svg(result)).encode()
    return _RENDERERS[output_format](result).encode()


def _is_session(home: DataDir, name: str) -> bool:
    with NotebookService(home.index) as service:
        return service.is_session(name)


def _session_page(home: DataDir, session: str) -> bytes:
    from clew.api.export import render_run_page
    from clew.query.run_page import build_run_page

    with NotebookService(home.index) as service:
        return render_run_page(build_run_page(service.run(session))).encode()


def _openlineage_events(home: DataDir, name: str) -> bytes:
    from clew.lake.delta import Lake
    from clew.lake.format import require_lake
    from clew.lake.run_events import read_run_events

    with LineageService(home.index) as service:
        run, session = service.resolve_run_and_session(name)
    require_lake(home.lake)
    return b"".join(body + b"\n" for body in read_run_events(Lake(home.lake), run, session))


def _write_output(out: Path | None, body: bytes) -> None:
    if out is None:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    try:
        out.write_bytes(body)
    except OSError as error:
        raise ClewError(f"Cannot write {out}: {error.strerror}.", hint="Pass another file with --out.") from error
