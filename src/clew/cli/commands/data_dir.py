"""`clew backup`, `clew restore`, `clew forget` and `clew index`: commands on a whole data directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.options import facet_order_option, home_option, json_option, lake_option, spark_options
from clew.cli.output import format_bytes, format_count, show_progress, stderr_console, stdout_console
from clew.data_dir import DataDir, replace_file
from clew.errors import ClewError, UsageError
from clew.events.erasure import ErasureKind, ErasureTarget, EventEraser
from clew.events.facets import FacetOrder
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.query.entities.aliases import AliasStore
from clew.query.names import UnknownNameError, match_datasets

if TYPE_CHECKING:
    from clew.pipeline.backup import BackupManifest
    from clew.pipeline.forget import ErasureCount, ForgetReceipt

_FOLDER = click.Path(path_type=Path, file_okay=False)


def _print_manifest(manifest: BackupManifest) -> None:
    files = format_count(len(manifest.files), "file")
    index = "" if manifest.has_index else " The index is not included; the next `clew pipeline run` rebuilds it."
    stderr_console().print(f"Copied {files}, {format_bytes(manifest.bytes)}, of {manifest.created_at}.{index}")


@click.command("backup")
@click.argument("folder", type=_FOLDER)
@json_option(_print_manifest)
@lake_option
def backup_command(folder: Path, home: DataDir) -> BackupManifest:
    """Copy the data directory to a new folder, also while servers and pipelines are running.

    The copy has every event that was acknowledged before the command was started. The lake must be a folder.
    """
    from clew.pipeline.backup import create_backup

    with show_progress() as progress:
        return create_backup(home, folder.absolute(), progress)


@click.command("restore")
@click.argument("folder", type=_FOLDER)
@json_option(_print_manifest)
@home_option
def restore_command(folder: Path, home: DataDir) -> BackupManifest:
    """Copy a backup to a new data directory. The next pipeline continues where the backup ends."""
    from clew.pipeline.backup import restore_backup

    with show_progress() as progress:
        return restore_backup(folder.absolute(), home, progress)


def _print_receipt(receipt: ForgetReceipt) -> None:
    console = stdout_console()

    def print_line(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    is_done = bool(receipt.completed_at)
    if receipt.is_empty:
        print_line(f"No event mentions {receipt.target}.")
    else:
        print_line(f"{'Forgot' if is_done else 'Would forget'} {receipt.target}.")
        for place, count in (("Lake", receipt.lake), ("Log", receipt.log), ("Event files", receipt.streams)):
            print_line(f"{place + ':':<13}{_format_count(count)}")
        for path in receipt.deleted_files:
            print_line(f"Deleted {path}.")
        if is_done:
            rows = format_count(sum(receipt.deleted_rows.values()), "row")
            print_line(f"Replaced {rows} of the lake and deleted its earlier versions; rebuilt the index.")
    if is_done and receipt.remaining_mentions:
        mentions = format_count(receipt.remaining_mentions, "event")
        verb = "contains" if receipt.remaining_mentions == 1 else "contain"
        print_line(f"{mentions} of others still {verb} the text, for example in the name of a job.")
    print_line("Not removed:")
    for place in receipt.not_removed:
        print_line(f"  - {place}")


def _format_count(count: ErasureCount) -> str:
    return f"{format_count(count.deleted, 'event')} deleted, {count.changed:,} changed"


@click.command("forget")
@click.argument("name", metavar="DATASET|SESSION|NAMESPACE", required=False)
@click.option(
    "--as",
    "kind",
    type=click.Choice([kind.value for kind in ErasureKind]),
    help="What the name is. Required if the name is that of several.",
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Count the events; change nothing.")
@click.option("--resume", "must_resume", is_flag=True, help="Complete a removal that was interrupted.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask. Without a terminal, nothing is asked.")
@click.option(
    "--receipt",
    "receipt_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the receipt to this file as JSON.",
)
@json_option(_print_receipt)
@lake_option
@spark_options
def forget_command(  # noqa: PLR0913
    *,
    name: str | None,
    kind: str | None,
    is_dry_run: bool,
    must_resume: bool,
    is_confirmed: bool,
    receipt_file: Path | None,
    home: DataDir,
    master: str,
    conf: dict[str, str],
) -> ForgetReceipt:
    """Remove a dataset, a notebook session or a namespace from log, lake, index, search and event files.

    Events of the entity are deleted. Other events remain without what refers to it. This cannot be undone. Not possible
    while `clew up`, a collector or a pipeline is running.
    """
    from clew.pipeline.forget import count_matches, forget, read_pending_target

    pending = read_pending_target(home)
    if must_resume:
        if pending is None or name is not None:
            raise UsageError("There is no interrupted removal." if name is None else "Pass --resume without a name.")
        target = pending
    elif name is None:
        raise UsageError("Missing the name of a dataset, a session or a namespace.", hint="See `clew forget --help`.")
    elif pending is not None:
        message = f"The removal of {pending} was interrupted."
        raise ClewError(message, hint="Complete it first: run `clew forget --resume`.")
    else:
        target = find_target(home, name, None if kind is None else ErasureKind(kind))
    with show_progress() as progress:
        if is_dry_run:
            progress("Searching events")
            return count_matches(home, target)
        if not (is_confirmed or must_resume) and sys.stdin.isatty():
            click.confirm(f"Remove {target} permanently?", abort=True, err=True)
        from clew.capture.emit.worker import expand_abandoned

        expand_abandoned(home.streams)
        receipt = forget(
            home,
            target,
            erase_others=lambda eraser: _erase_from_state(home, eraser),
            on_progress=progress,
            master=master,
            conf=conf,
        )
    if receipt_file is not None:
        import msgspec

        replace_file(receipt_file.absolute(), msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n")
    return receipt


def find_target(home: DataDir, name: str, kind: ErasureKind | None) -> ErasureTarget:
    """Find the dataset, session or namespace of a name; UsageError if there is none, or several."""
    try:
        with IndexReader(home.index) as index:
            targets = [target for target in _find_targets(index, name) if kind in {None, target.kind}]
            existing = [dataset for _, dataset in index.recent_names("dataset")]
    except MissingIndexError as error:
        raise ClewError("There is no index to find the name in.", hint="Run `clew pipeline run` first.") from error
    if not targets:
        raise UnknownNameError.of(kind or "dataset, session or namespace", name, existing)
    if len(targets) > 1:
        found = " and ".join(map(str, targets))
        datasets = [target for target in targets if target.kind is ErasureKind.DATASET]
        hint = "Pass the namespace as well: NAMESPACE:NAME." if len(datasets) > 1 else "Choose one with --as."
        raise UsageError(f"{name!r} is the name of {found}.", hint=hint)
    return targets[0]


def _find_targets(index: IndexReader, name: str) -> Iterator[ErasureTarget]:
    if index.query("select 1 from cell_executions where session_id = ? limit 1", name):
        yield ErasureTarget(ErasureKind.SESSION, name)
    if any(row["namespace"] == name for row in index.namespaces()):
        yield ErasureTarget(ErasureKind.NAMESPACE, name)
    for dataset in match_datasets(index, name.removeprefix("dataset:")):
        query = "select namespace, name from dataset_aliases where canonical_namespace = ? and canonical_name = ?"
        aliases = index.query(query, dataset.namespace, dataset.name)
        names = {(dataset.namespace, dataset.name), *((row["namespace"], row["name"]) for row in aliases)}
        yield ErasureTarget(ErasureKind.DATASET, names=tuple(sorted(names)))


def _erase_from_state(home: DataDir, eraser: EventEraser) -> Iterator[str]:
    """Erase from the state of watchers and imports; yield what is in use."""
    from clew.importer.state import erase_from_states
    from clew.watch.store import WatchStore

    AliasStore(home.index).erase(eraser.is_erased)
    erase_from_states(home, eraser.is_annotation)
    for path in sorted((home.root / "watch").glob("*.sqlite")):
        try:
            with WatchStore(path) as store:
                store.erase(eraser.mentions)
        except ClewError:
            yield f"The notifications of {path}: a watcher is running. Stop it and run the command again."


@click.group("index")
def index_group() -> None:
    """Manage the query index."""


@index_group.command("rebuild")
@facet_order_option("Changes the setting of the lake, and rewrites derived tables.")
@json_option(lambda result: stderr_console().print(f"Rebuilt the index: {result['events']:,} events."))
@lake_option
@spark_options
def index_rebuild(facet_order: FacetOrder | None, home: DataDir, master: str, conf: dict[str, str]) -> dict[str, int]:
    """Rebuild the index from the lake. The old index is used until the new one is complete."""
    from clew.pipeline.pipeline import open_pipeline

    _prepare_rebuild(home, facet_order)
    with (
        show_progress() as progress,
        open_pipeline(home, on_progress=progress, master=master, conf=conf, rebuild=True) as pipeline,
    ):
        count = pipeline.index.event_count
        if facet_order is not None:
            pipeline.refresh()
    return {"events": count}


def _prepare_rebuild(home: DataDir, facet_order: FacetOrder | None) -> None:
    from clew.index.backends import open_backend
    from clew.lake.lake import Lake
    from clew.lake.storage import open_storage
    from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock

    if not open_storage(home.lake).has_folder():
        raise ClewError(f"There is no lake at {home.lake}.", hint="Run `clew pipeline run` first.")
    with acquire_lock(home.lake / PIPELINE_LOCK), acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
        lake = Lake(home.lake)
        lake.create_or_validate()
        if facet_order is not None:
            # Remove the index first: it was built with the old order.
            open_backend(home.index).remove()
            lake.set_facet_order(facet_order)
