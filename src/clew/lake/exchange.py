"""Files of a table exchanged for others, in one commit and only if nobody else has replaced them."""

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

# Each try that fails is a batch that was committed in between.
_TRIES = 100


class LiveFile(Struct, frozen=True):
    """A file that the newest version of a table names."""

    name: str
    size: int
    written_ms: int


class ExchangedError(ClewError):
    """Somebody else has replaced a file that was to be exchanged."""

    @classmethod
    def of(cls, table: str, file: str) -> ExchangedError:
        """Name the table and the file."""
        hint = "Nothing was changed. Wait for the other to end, then run it again."
        return cls(f"Someone else has replaced the file {file} of {table} meanwhile.", hint=hint)


def live_files(table: DeltaTable) -> list[LiveFile]:
    """The files of a table, the oldest first."""
    actions = pa.table(table.get_add_actions(flatten=True))
    times = actions["modification_time"].cast(pa.int64()).to_pylist()
    files = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), times, strict=True)
    return sorted((LiveFile(*file) for file in files), key=lambda file: (file.written_ms, file.name))


def exchange(
    lake: Lake, name: str, removed: Sequence[LiveFile], added: Sequence[DataFile], *, is_data_change: bool
) -> None:
    """Let `added` stand in for `removed`. Batches that were committed meanwhile stay.

    deltalake takes a commit that removes files for an append and lets two of them remove the same file, so that its
    rows would be there twice. So each try is for the very next version after one in which all files were there.
    """
    now = int(time.time() * 1000)
    removes = [RemoveAction(file.name, is_data_change, now, file.size, {}) for file in removed]
    adds = [AddAction(file.name, file.size, {}, file.written_ms, is_data_change, file.stats) for file in added]
    for _ in range(_TRIES):
        table = _table_with(lake, name, removed)
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
        except CommitFailedError as fault:
            newest = lake.table(name)
            if newest is None or newest.version() == version:
                raise _refused(name, fault) from fault
            continue
        except (DeltaError, OSError) as fault:
            raise _refused(name, fault) from fault
        return
    message = f"Files of {name} could not be exchanged: others have committed to it {_TRIES} times meanwhile."
    raise ClewError(message, hint="Nothing was changed. Try again when less is taken in.")


def _table_with(lake: Lake, name: str, removed: Sequence[LiveFile]) -> DeltaTable:
    table = lake.table(name)
    present = set() if table is None else {file.name for file in live_files(table)}
    for file in removed:
        if table is None or file.name not in present:
            raise ExchangedError.of(name, file.name)
    if table is None:
        raise ClewError(f"There is no table {name} in {lake.root}.")
    return table


def _refused(name: str, fault: Exception) -> ClewError:
    hint = "Nothing was changed: a table is as it was until a commit."
    return ClewError(f"Files of {name} cannot be exchanged: {fault}.", hint=hint)
