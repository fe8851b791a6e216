"""`clew upstream`, `downstream`, `path`, `impact`, `search`, `diff` and `export`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import click

from clew.cli.completion import complete_column, complete_dataset, complete_session
from clew.cli.options import (
    LIMIT,
    frames_option,
    fresh_index_option,
    json_flag,
    json_option,
    lake_option,
    limits_options,
    view_options,
)
from clew.cli.output import format_count, print_json, show_progress, stderr_console, stdout_console, write_file
from clew.cli.render.lineage import (
    column_path_text,
    hit_table,
    impact_table,
    lineage_summary,
    lineage_tree,
    path_text,
    run_diff_text,
    upstream_tree,
    version_diff_text,
)
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.query import exports
from clew.query.diff import RunDiff, VersionDiff
from clew.query.graph.traversal import Direction
from clew.query.graph.view import ViewOptions
from clew.query.lineage import ColumnPath, ImpactResult, LineageResult, TraversalLimits
from clew.query.model import LineageStep
from clew.query.service import LineageService
from clew.query.upstream import MAX_DEPTH

_LIMIT_HELP = "Maximum number of jobs, datasets or runs; columns are always traced to their sources."


def _print_lineage(result: LineageResult | LineageStep) -> None:
    if isinstance(result, LineageStep):
        stdout_console().print(upstream_tree(result))
    else:
        stdout_console().print(lineage_tree(result))
        stderr_console().print(lineage_summary(result))


@click.command("upstream")
@click.argument("name", shell_complete=complete_column)
@click.option("--depth", type=click.IntRange(1), default=MAX_DEPTH, show_default=True, help="Maximum number of hops.")
@click.option("--limit", type=LIMIT, default=200, show_default=True, help=_LIMIT_HELP)
@view_options
@json_option(_print_lineage)
@fresh_index_option
def upstream_command(
    name: str, depth: int, limit: int, view: ViewOptions, home: DataDir
) -> LineageResult | LineageStep:
    """Show where a column came from, with the cell and line of code of each step, or the sources of a dataset.

    NAME is DATASET.COLUMN, a dataset, a job, a run id or a session id. A unique suffix of a dataset name is enough:

        clew upstream daily_revenue.parquet.net_revenue
    """
    with LineageService.open(home.index) as service:
        return service.upstream(name, TraversalLimits(depth, limit), view)


@click.command("downstream")
@click.argument("name", shell_complete=complete_column)
@limits_options(200, "nodes")
@view_options
@json_option(_print_lineage)
@fresh_index_option
def downstream_command(name: str, limits: TraversalLimits, view: ViewOptions, home: DataDir) -> LineageResult:
    """Show what depends on a column, dataset, job or run.

    NAME is DATASET.COLUMN, a dataset, a job, a run id or a session id. A unique suffix of a dataset name is enough.
    """
    with LineageService.open(home.index) as service:
        return service.traverse(name, "downstream", limits, view)


@click.command("path")
@click.argument("start", metavar="A", shell_complete=complete_column)
@click.argument("end", metavar="B", shell_complete=complete_column)
@view_options
@json_flag
@fresh_index_option
def path_command(start: str, end: str, view: ViewOptions, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Show the shortest path between two columns, or between two datasets or jobs, along the data flow.

    Both directions are tried. Exits with 1 if there is no path.
    """
    with LineageService.open(home.index) as service:
        result = service.find_path(start, end, view)
    if as_json:
        print_json(result)
    elif result.edges:
        lines = column_path_text(result) if isinstance(result, ColumnPath) else path_text(result)
        for line in lines:
            stdout_console().print(line)
    else:
        stderr_console().print(f"No path between {start} and {end}.")
    sys.exit(0 if result.edges else 1)


def _print_impact(result: ImpactResult) -> None:
    if result.affected:
        stdout_console().print(impact_table(result.affected))
    elif result.in_memory:
        stdout_console().print(impact_table(result.in_memory))
        count = format_count(len(result.in_memory), "in-memory frame")
        stderr_console().print(f"No file or table is affected. In the notebook, it reaches {count}.")
        return
    summary = f"{format_count(result.direct, 'dataset')} affected directly, {result.indirect:,} indirectly"
    stderr_console().print(f"{summary}{'; truncated, raise --limit' if result.is_truncated else ''}.")


@click.command("impact")
@click.argument("name", metavar="DATASET[.COLUMN]", shell_complete=complete_column)
@limits_options(1000, "columns")
@frames_option
@json_option(_print_impact)
@fresh_index_option
def impact_command(name: str, limits: TraversalLimits, include_frames: bool, home: DataDir) -> ImpactResult:  # noqa: FBT001
    """Show which datasets are affected by changing a column.

    Directly: its values are used. Indirectly: it is used to filter, join, group or sort.
    """
    with LineageService.open(home.index) as service:
        return service.analyze_impact(name, limits, include_frames=include_frames)


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=LIMIT, default=20, show_default=True, help="Maximum number of results.")
@click.option("--wait-for-index", is_flag=True, help="Wait until new events are in the search index.")
@json_flag
@fresh_index_option
def search_command(words: tuple[str, ...], limit: int, wait_for_index: bool, as_json: bool, home: DataDir) -> None:  # noqa: FBT001
    """Search jobs and datasets by name, column, description, tag, code and facets, and runs by id.

    A result contains every word, or a word that starts with it. Exits with 1 if there are no results.
    """
    with LineageService.open(home.index) as service:
        result = service.search(" ".join(words), limit=limit, wait_for_index=wait_for_index)
    if as_json:
        print_json(result)
    elif result.hits:
        stdout_console().print(hit_table(result))
        shown = len(result.hits)
        stderr_console().print(
            f"{format_count(result.total, 'result')}{f', the first {shown:,} shown' if shown < result.total else ''}."
        )
    else:
        suggestions = f" Did you mean {', '.join(result.did_you_mean)}?" if result.did_you_mean else ""
        stderr_console().print(f"No results.{suggestions}")
    if not result.is_complete:
        stderr_console().print(
            "New events are not fully indexed yet; only their names were searched. Use --wait-for-index."
        )
    sys.exit(0 if result.hits else 1)


def _print_diff(diff: RunDiff | VersionDiff) -> None:
    lines = list(run_diff_text(diff) if isinstance(diff, RunDiff) else version_diff_text(diff))
    for line in lines:
        stdout_console().print(line)
    if not lines:
        stderr_console().print("No differences.")


@click.command("diff")
@click.argument("left", metavar="RUN", required=False, shell_complete=complete_session)
@click.argument("right", metavar="RUN", required=False, shell_complete=complete_session)
@click.option(
    "--dataset", shell_complete=complete_dataset, help="Compare versions of this dataset (default: the last two)."
)
@json_option(_print_diff)
@lake_option
def diff_command(left: str | None, right: str | None, dataset: str | None, home: DataDir) -> RunDiff | VersionDiff:
    """Compare two runs: state, duration, data, columns, lineage and code.

    RUN is a run id or a session id. With --dataset, the arguments are versions and are optional. The code of runs that
    are not of notebooks is read from the lake.
    """
    if dataset is None and (left is None or right is None):
        raise click.UsageError("Pass two runs, or a dataset with --dataset.")
    with LineageService.open(home.index, home.lake) as service:
        if dataset is None:
            return service.diff_runs(str(left), str(right))
        return service.diff_versions(dataset, left, right)


_PARQUET_COLUMNS = ("from", "to", "kind", "subtype", "description", "job", "dataset", "version")


def edges_to_parquet(result: LineageResult) -> bytes:
    """Return a Parquet file with a row per edge; nodes are given by id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([pa.field(name, pa.string()) for name in _PARQUET_COLUMNS])
    rows = [
        (edge.start, edge.end, edge.kind, edge.subtype, edge.description, edge.job, edge.dataset, edge.version)
        for edge in result.edges
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_PARQUET_COLUMNS)
    file = io.BytesIO()
    pq.write_table(pa.table([pa.array(column, pa.string()) for column in columns], schema=schema), file)
    return file.getvalue()


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
_EVERYTHING = "all"
_FORMATS = ("html", "svg", "mermaid", "dot", "ndjson", "parquet")
_RENDERERS: dict[str, Callable[[LineageResult], str]] = {
    "svg": exports.render_svg,
    "mermaid": exports.render_mermaid,
    "dot": exports.render_dot,
}


@click.command("export")
@click.argument("name", shell_complete=complete_column)
@click.option("--out", type=click.Path(path_type=Path), help="Output file (default: stdout); for `all`, a folder.")
@click.option("--gzip", "is_compressed", is_flag=True, help="Compress the events of `all`.")
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
@json_flag
@lake_option
def export_command(  # noqa: PLR0913
    *,
    name: str,
    out: Path | None,
    is_compressed: bool,
    output_format: str | None,
    direction: Direction,
    limits: TraversalLimits,
    view: ViewOptions,
    as_json: bool,
    home: DataDir,
) -> None:
    """Export the lineage of a column, dataset, job or run.

    For a notebook session, html is the complete run page. ndjson exports the OpenLineage events of a run, or of all
    runs of a session, from the lake.

    `clew export all --out FOLDER` writes all events as NDJSON, all annotations, and the rejected events.
    """
    if name == _EVERYTHING:
        _export_all(home, out, is_compressed=is_compressed, as_json=as_json)
        return
    if out is not None and out.is_dir():
        raise UsageError(f"{out} is a folder.", hint="Pass the output file with --out.")
    chosen = output_format or _infer_format(out)
    if as_json and out is None:
        raise UsageError("--json requires --out.", hint="Pass the output file with --out.")
    if chosen == "ndjson":
        body = _openlineage_events(home, name)
    elif chosen == "html" and _is_session(home, name):
        body = _session_page(home, name)
    else:
        with LineageService.open(home.index) as service:
            result = service.traverse(name, direction, limits, view)
        body = _render(result, chosen)
    if out is None:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return
    write_file(out, body)
    if as_json:
        print_json({"format": chosen, "file": str(out), "bytes": len(body)})
    else:
        stderr_console().print(f"Wrote {out}")


def _export_all(home: DataDir, folder: Path | None, *, is_compressed: bool, as_json: bool) -> None:
    from clew.importer.export import export_all

    if folder is None:
        raise UsageError("`clew export all` needs a folder.", hint="Pass it with --out.")
    with show_progress() as progress:
        progress("Writing events")
        result = export_all(home, folder, is_compressed=is_compressed, on_step=progress.step)
    if as_json:
        print_json(result)
        return
    parts = format_count(result.events, "event"), format_count(result.annotations, "annotation")
    rejected = format_count(result.rejected, "rejected event")
    stderr_console().print(f"Wrote {parts[0]}, {parts[1]} and {rejected} to {folder}")


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
        return edges_to_parquet(result)
    if output_format == "html":
        from clew.reports.html import render_page

        return render_page(f"Lineage of {exports.node_label(result.nodes[0])}", exports.render_svg(result)).encode()
    return _RENDERERS[output_format](result).encode()


def _is_session(home: DataDir, name: str) -> bool:
    with LineageService.open(home.index) as service:
        return service.is_session(name)


def _session_page(home: DataDir, session: str) -> bytes:
    from clew.api.static_files import render_run_page
    from clew.query.pages.run_page import build_run_page

    with LineageService.open(home.index) as service:
        return render_run_page(build_run_page(service.get_session(session))).encode()


def _openlineage_events(home: DataDir, name: str) -> bytes:
    from clew.lake.lake import Lake
    from clew.lake.manifest import require_lake
    from clew.lake.scan import read_run_events

    with LineageService.open(home.index) as service:
        run, session = service.resolve_run_and_session(name)
    require_lake(home.lake)
    return b"".join(body + b"\n" for body in read_run_events(Lake(home.lake), run, session))
