"""`clew backup` and `clew restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.options import home_option, json_option, lake_option
from clew.cli.output import format_bytes, format_count, show_progress, stderr_console
from clew.data_dir import DataDir

if TYPE_CHECKING:
    from clew.pipeline.backup import BackupManifest

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
