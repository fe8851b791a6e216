"""`clew forget`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.options import json_option, lake_option, spark_options
from clew.cli.output import format_count, show_progress, stdout_console
from clew.data_dir import DataDir, replace_file
from clew.errors import ClewError, UsageError
from clew.events.erasure import ErasureKind, ErasureTarget, EventEraser
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.query.entities.aliases import AliasStore
from clew.query.names import UnknownNameError, match_datasets

if TYPE_CHECKING:
    from clew.pipeline.forget import ErasureCount, ForgetReceipt


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
