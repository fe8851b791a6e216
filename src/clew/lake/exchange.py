"""Atomic replacement of files of a table, unless they were replaced concurrently."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction
from msgspec import Struct

from clew.errors import ClewError
from clew.lake.delta import WITHOUT_LOG_CLEANUP, Lake
from clew.lake.files import DataFile

# Each failed attempt means that a batch was committed in between.
_MAX_REPLACE_ATTEMPTS = 100


class ActiveFile(Struct, frozen=True):
    """A file of the current version of a table."""

    name: str
    size: int
    written_ms: int


class ConcurrentRewriteError(ClewError):
    """A file to replace was already replaced by another process."""

    @classmethod
    def of(cls, table: str, file: str) -> ConcurrentRewriteError:
        """Build the error for a file of a table."""
        hint = "Nothing was changed. Wait for the other process to finish, then run the command again."
        return cls(f"The file {file} of the table {table} was replaced by another process.", hint=hint)


def active_files(table: DeltaTable) -> list[ActiveFile]:
    """List the files of a table, oldest first."""
    actions = pa.table(table.get_add_actions(flatten=True))
    times = actions["modification_time"].cast(pa.int64()).to_pylist()
    files = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), times, strict=True)
    return sorted((ActiveFile(*file) for file in files), key=lambda file: (file.written_ms, file.name))


def replace_files(
    lake: Lake, name: str, removed: Sequence[ActiveFile], added: Sequence[DataFile], *, is_data_change: bool
) -> None:
    """Replace the files `removed` by `added` in one commit; concurrently committed batches are preserved.

    deltalake treats a commit that removes files as an append and lets two commits remove the same file, which would
    duplicate its rows. So each attempt commits exactly the next version after one that contains all removed files.
    """
    now = int(time.time() * 1000)
    removes = [RemoveAction(file.name, is_data_change, now, file.size, {}) for file in removed]
    adds = [AddAction(file.name, file.size, {}, file.written_ms, is_data_change, file.stats) for file in added]
    for _ in range(_MAX_REPLACE_ATTEMPTS):
        table = _table_containing(lake, name, removed)
        version = table.version()
        try:
            table.create_write_transaction(
                [*adds, *removes],
                "append",
                table.schema(),
                [],
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=WITHOUT_LOG_CLEANUP,
            )
        except CommitFailedError as error:
            newest = lake.table(name)
            if newest is None or newest.version() == version:
                raise _commit_error(name, error) from error
            continue
        except (DeltaError, OSError) as error:
            raise _commit_error(name, error) from error
        return
    message = (
        f"Files of {name} could not be replaced: {_MAX_REPLACE_ATTEMPTS} attempts failed because of concurrent commits."
    )
    raise ClewError(message, hint="Nothing was changed. Try again when fewer events are ingested.")


def _table_containing(lake: Lake, name: str, removed: Sequence[ActiveFile]) -> DeltaTable:
    table = lake.table(name)
    present = set() if table is None else {file.name for file in active_files(table)}
    for file in removed:
        if table is None or file.name not in present:
            raise ConcurrentRewriteError.of(name, file.name)
    if table is None:
        raise ClewError(f"The lake {lake.root} has no table {name}.")
    return table


def _commit_error(name: str, error: Exception) -> ClewError:
    hint = "Nothing was changed."
    return ClewError(f"Files of {name} cannot be replaced: {error}.", hint=hint)
