"""`clew import`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.output import format_bytes, format_count, new_table, show_progress, stderr_console, stdout_console
from clew.data_dir import DataDir, is_bucket_url
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.importer.comparison import Comparison
    from clew.importer.importer import ImportContext, ImportPreview, ImportSummary

_WEB_SCHEMES = "http://", "https://"
_DATABASE_SCHEMES = "postgresql://", "postgres://", "jdbc:postgresql://"


class _ImportGroup(click.Group):
    """A group whose subcommand follows from the source, if that is a URL: `clew import http://…`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0].startswith((*_WEB_SCHEMES, *_DATABASE_SCHEMES)):
            args = ["marquez", *args]
        elif is_bucket_url(args[0]):
            args = ["files", *args]
        return super().resolve_command(ctx, args)


@click.group("import", cls=_ImportGroup)
def import_group() -> None:
    """Import the history of a Marquez server, or event files.

    Can be used while `clew up` is running, and repeated: an import continues where the last one ended.
    """


def _print_result(result: ImportSummary | ImportPreview) -> None:
    from clew.importer.importer import ImportPreview

    if isinstance(result, ImportPreview):
        _print_preview(result)
        return
    console = stderr_console()
    console.print(f"Imported {format_count(result.events, 'event')} ({format_bytes(result.bytes)}).")
    for count, text in (
        (result.entity_events, "for jobs, datasets and runs without events"),
        (result.annotations, "tags, owners, descriptions and deletions"),
        (result.aliases, "former addresses of jobs and versions"),
        (result.known_events, "imported before, skipped"),
        (result.empty_rows, "rows without an event, skipped"),
        (result.reserved_names, "with the name of clew's annotations, skipped"),
    ):
        if count:
            console.print(f"{count:,} {text}.")
    ingestion = result.ingestion
    if ingestion.events is not None:
        console.print(f"Ingested {format_count(ingestion.events, 'event')}, {ingestion.duplicates or 0:,} duplicates.")
    if ingestion.rejected:
        console.print(f"{format_count(ingestion.rejected, 'event')} rejected: see `clew pipeline status`.")
    if not ingestion.is_complete:
        console.print("Facets are read from raw events until `clew pipeline backfill` has filled their tables.")


def _print_preview(preview: ImportPreview) -> None:
    console = stdout_console()
    size = f" ({format_bytes(preview.bytes)})" if preview.bytes else ""
    console.print(f"{preview.source}: {format_count(preview.events, 'event')}{size}, {preview.new_events:,} to import")
    if preview.first_event:
        console.print(f"Event times: {preview.first_event} to {preview.last_event}")
    table = new_table("", "", right=("",))
    for name, count in preview.counts.items():
        table.add_row(name, f"{count:,}")
    console.print(table)
    for event in preview.sample:
        console.print(event[:200])


def _import_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of all imports; the command receives `context`, a function of the progress display."""

    @wraps(command)
    def with_context(
        *args: Any, home: DataDir, master: str, conf: dict[str, str], has_ingestion: bool, has_backfill: bool, **kw: Any
    ) -> Any:
        from clew.importer.importer import ImportContext
        from clew.importer.ingestion import SparkOptions

        with show_progress() as progress:
            context = ImportContext(
                home,
                SparkOptions(master, conf),
                progress,
                progress.step,
                has_backfill=has_backfill,
                has_ingestion=has_ingestion,
            )
            return command(*args, context=context, **kw)

    backfill_option = click.option(
        "--backfill/--no-backfill",
        "has_backfill",
        default=True,
        show_default=True,
        help="Fill the facet tables at the end, newest events first. Events can be read before.",
    )
    ingest_option = click.option(
        "--ingest/--no-ingest",
        "has_ingestion",
        default=True,
        show_default=True,
        help="Ingest the imported events; otherwise the next pipeline does.",
    )
    return ingest_option(backfill_option(lake_option(spark_options(with_context))))


@import_group.command("marquez")
@click.argument("source", metavar="URL")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Count and show samples; import nothing.")
@click.option("--full", "is_full", is_flag=True, help="Read events again that were imported before.")
@json_option(_print_result)
@_import_options
def import_marquez(
    *, source: str, is_dry_run: bool, is_full: bool, context: ImportContext
) -> ImportSummary | ImportPreview:
    """Import the events of a Marquez server, and its tags, owners, deletions and entities without events.

    URL is that of its PostgreSQL database (postgresql://user:password@host:5432/marquez), or of its API
    (http://host:5000/api/v1), which needs no access to the database but is slower.
    """
    from dataclasses import replace

    from clew.importer.importer import import_database, import_server, preview_database, preview_server
    from clew.importer.marquez_api import MarquezServer
    from clew.importer.marquez_database import parse_database_url

    context = replace(context, is_full=is_full)
    if source.startswith(_WEB_SCHEMES):
        server = MarquezServer(source)
        return preview_server(context, server) if is_dry_run else import_server(context, server)
    _check_database_url(source)
    url = parse_database_url(source)
    return preview_database(context, url) if is_dry_run else import_database(context, url)


@import_group.command("files")
@click.argument("locations", nargs=-1, required=True, metavar="PATH|URL...")
@json_option(_print_result)
@_import_options
def import_files_command(*, locations: tuple[str, ...], context: ImportContext) -> ImportSummary:
    """Import event files: NDJSON or JSON, plain, .gz or .zst, from files, folders or s3://bucket/prefix.

    A folder that `clew export all` has written is imported with its annotations.
    """
    from clew.importer.importer import import_event_files

    return import_event_files(context, locations)


def _print_comparison(comparison: Comparison) -> None:
    console = stdout_console()
    table = new_table("", "Marquez", "clew", "", right=("Marquez", "clew"))
    for count in comparison.counts:
        table.add_row(count.name, f"{count.marquez:,}", f"{count.clew:,}", count.reason or "")
    console.print(table)
    console.print()
    for difference in comparison.differences:
        console.print(f"{difference.kind} {difference.name}: {difference.field}", soft_wrap=True)
        console.print(f"  Marquez: {difference.marquez}", soft_wrap=True)
        console.print(f"  clew:    {difference.clew}", soft_wrap=True)
        console.print(f"  {difference.reason or 'No known reason.'}", soft_wrap=True)
    equal = comparison.compared - len({(item.kind, item.name) for item in comparison.differences})
    stderr_console().print(f"Compared {comparison.compared:,} jobs, datasets and runs: {equal:,} are equal.")
    if comparison.unexplained:
        stderr_console().print(f"{format_count(comparison.unexplained, 'difference')} without a known reason.")


@import_group.command("compare")
@click.argument("source", metavar="URL")
@click.option(
    "--sample",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Number of jobs, of datasets and of runs to compare.",
)
@json_option(_print_comparison, lambda comparison: 1 if comparison.unexplained else 0)
@lake_option
def import_compare(source: str, sample: int, home: DataDir) -> Comparison:
    """Compare counts and a sample of answers with Marquez, and show each difference with its reason.

    URL is that of the database or of the API. Exits with 1 if a difference has no known reason.
    """
    from clew.importer.comparison import DatabaseFacts, ServerFacts, compare_with_marquez
    from clew.importer.marquez_api import MarquezServer
    from clew.importer.marquez_database import connect_marquez, parse_database_url, read_schema

    if source.startswith(_WEB_SCHEMES):
        return compare_with_marquez(home, ServerFacts(MarquezServer(source)), sample)
    _check_database_url(source)
    url = parse_database_url(source)
    with connect_marquez(url) as connection:
        return compare_with_marquez(home, DatabaseFacts(connection, read_schema(connection, url)), sample)


def _check_database_url(source: str) -> None:
    if not source.startswith(_DATABASE_SCHEMES):
        hint = "Pass postgresql://user:password@host:5432/marquez, or http://host:5000/api/v1."
        shown = source if "@" not in source else "the URL"
        raise UsageError(f"Invalid source {shown!r}: neither a PostgreSQL nor an HTTP URL.", hint=hint)
