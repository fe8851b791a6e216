"""The lake: create, open, append, overwrite and replace files with Delta commits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Field
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)
from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.errors import ClewError, UsageError
from clew.events.facets import FacetOrder
from clew.lake.data_files import DataFile
from clew.lake.manifest import check_no_stray_tables, check_tables, read_manifest, write_manifest
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, SOURCE_TABLE_NAMES, SOURCE_TABLES, Table
from clew.lake.storage import DELTA_LOG_DIR, REPAIR_LOG_DIR, Storage, open_storage, translate_storage_errors

# Reports of Spark tasks to the driver while a batch is processed.
WORKER_REPORTS_DIR: Final = "_worker_reports"
_MAX_COMMIT_ATTEMPTS = 5
# Written when the whole Delta log of a table under repair is copied.
_IS_COPIED: Final = "copied"
# Every commit lists the whole Delta log of its table three times, and a busy stream commits 100,000 times a day.
_TABLE_PROPERTIES: Final = {"delta.logRetentionDuration": "interval 1 hours"}
# Otherwise deltalake stats every file of the log after each commit (13 ms for 2,000 files). Done by vacuum instead.
WITHOUT_LOG_CLEANUP: Final = PostCommitHookProperties(cleanup_expired_logs=False)


@dataclass(frozen=True)
class BatchId:
    """Delta transaction id (application id, version) of a batch: each batch is committed once per table."""

    app_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.app_id}/{self.number}"


class MissingFileError(ClewError):
    """A file to commit does not exist, or not with the size that its writer reported."""

    @classmethod
    def of(cls, root: LakeLocation, file: DataFile, size: int | None) -> MissingFileError:
        """Build the error for a file with its actual size; None if it does not exist."""
        found = "does not exist" if size is None else f"has {size:,} bytes"
        message = (
            f"The file {file.name} of the table {file.table} {found} in the lake {root}; its writer reported"
            f" {file.size:,} bytes. Nothing was committed."
        )
        hint = "Driver and executors must share the lake: put it in a bucket, or in a folder mounted on all machines."
        return cls(message, hint=hint)


class OldTable(NamedTuple):
    """Data files of a table whose Delta log is damaged, without those removed, and the transactions that it knew."""

    files: list[str]
    transactions: dict[str, int]


class Lake:
    """The tables below `root`. `check_lock` is called before each commit and raises if the lock was lost."""

    def __init__(self, root: LakeLocation, check_lock: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self.storage = open_storage(root)
        self.check_lock = check_lock
        self._tables: dict[str, DeltaTable] = {}
        self._evolved: set[str] = set()

    def create_or_validate(self, facet_order: FacetOrder | None = None) -> None:
        """Create the lake or missing tables; raise if the lake is incomplete, or of another format or facet order."""
        manifest = read_manifest(self.root)
        if manifest is None:
            check_no_stray_tables(self.root, SOURCE_TABLE_NAMES)
        else:
            check_tables(self.root, manifest)
            _check_facet_order(self.root, manifest.facet_order, facet_order or manifest.facet_order)
        if manifest is None or manifest.id is None or set(SOURCE_TABLE_NAMES) - set(manifest.tables):
            self._create(facet_order)

    @property
    def facet_order(self) -> FacetOrder:
        """The order that decides between several facets of one name."""
        manifest = read_manifest(self.root)
        return FacetOrder.RECEIVED if manifest is None else manifest.facet_order

    def set_facet_order(self, order: FacetOrder) -> None:
        """Change the facet order; index and derived tables must be rebuilt afterwards."""
        write_manifest(self.root, SOURCE_TABLE_NAMES, order)

    def _create(self, facet_order: FacetOrder | None) -> None:
        try:
            with translate_storage_errors(self.root):
                self._create_tables()
            write_manifest(self.root, SOURCE_TABLE_NAMES, facet_order)
        except (OSError, DeltaError) as error:
            message = f"The lake {self.root} is not writable: {getattr(error, 'strerror', None) or error}."
            raise ClewError(message, hint="Pass another location with --lake, CLEW_LAKE or --home DIR.") from error

    def _create_tables(self) -> None:
        self.storage.create()
        for table in SOURCE_TABLES:
            uri, schema = str(self.root / table.name), DeltaSchema.from_arrow(table.schema)
            options = self.storage.options
            DeltaTable.create(uri, schema, mode="ignore", configuration=_TABLE_PROPERTIES, storage_options=options)

    def table(self, name: str) -> DeltaTable | None:
        """Return the newest version of a table; None if it does not exist."""
        table = self._tables.get(name)
        try:
            if table is None or not self.storage.has_folder(f"{name}/{DELTA_LOG_DIR}"):
                self._tables.pop(name, None)
                table = self._tables[name] = self.storage.open_table(name)
            else:
                table.update_incremental()
        except TableNotFoundError:
            return None
        return table

    def require_table(self, name: str) -> DeltaTable:
        """Return the newest version of a table; raise if it does not exist."""
        table = self.table(name)
        if table is None:
            raise ClewError(f"The lake {self.root} has no table {name}.")
        return table

    def files(self, name: str) -> list[str]:
        """List the Parquet files of the current version of a table."""
        table = self.table(name)
        # Only the file names: deltalake percent-encodes the folder.
        folder = self.root / name
        return [] if table is None else [str(folder / uri.rpartition("/")[2]) for uri in table.file_uris()]

    def size(self, name: str) -> int:
        """Return the total bytes of a table's files."""
        table = self.table(name)
        return 0 if table is None else sum(table.get_add_actions(flatten=True).column("size_bytes").to_pylist())

    def row_counts(self) -> dict[str, int]:
        """Count the rows of each existing table."""
        tables = {name: self.table(name) for name in (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)}
        return {name: table.count() for name, table in tables.items() if table is not None}

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: BatchId) -> bool:
        """Append checked files to a table in the transaction of a batch; return False if it is already committed."""
        table = self.table(name)
        if table is not None:
            if _last_batch_number(table, batch.app_id) >= batch.number:
                return False
            self._evolve_schema(name, table, schema)
        properties = CommitProperties(app_transactions=[Transaction(batch.app_id, batch.number)])
        self._commit(name, table, schema, files, "append", properties)
        return True

    def append_tables(self, tables: Iterable[Table], files: Sequence[DataFile], batch: BatchId) -> list[DataFile]:
        """Append files table by table; return files of tables to which the batch was already committed."""
        self.check_files(files)
        already_committed = []
        for table in tables:
            table_files = [file for file in files if file.table == table.name]
            if table_files and not self.append(table.name, table.schema, table_files, batch):
                already_committed += table_files
        return already_committed

    def check_files(self, files: Sequence[DataFile]) -> None:
        """Raise unless each file exists with its reported size: the driver may not see what a worker wrote."""
        names = [f"{file.table}/{file.name}" for file in files]
        for file, size in zip(files, self.storage.map_concurrently(self.storage.size, names), strict=True):
            if size != file.size:
                raise MissingFileError.of(self.root, file, size)

    def last_batch(self, app_id: str, names: Iterable[str] = EVENT_TABLE_NAMES) -> int:
        """Return the number of the last batch of an application that any of these tables has; -1 if there is none."""
        tables = (self.table(name) for name in names)
        return max((_last_batch_number(table, app_id) for table in tables if table is not None), default=-1)

    def is_incomplete(self, batch: BatchId) -> bool:
        """Return whether some tables have a batch, but not the table that is committed last."""
        last = self.table(EVENT_TABLE_NAMES[-1])
        committed = -1 if last is None else _last_batch_number(last, batch.app_id)
        return committed < batch.number <= self.last_batch(batch.app_id)

    def replace(self, name: str, schema: pa.Schema, files: list[DataFile], batch: BatchId) -> None:
        """Overwrite a table with these files in the transaction of a batch."""
        self.check_files(files)
        properties = CommitProperties(app_transactions=[Transaction(batch.app_id, batch.number)])
        self._commit(name, self.table(name), schema, files, "overwrite", properties)

    def recreate_table(self, table: Table) -> OldTable:
        """Create a table again whose Delta log is damaged, without rows; its files and its old log are kept.

        Until `append_recovered`, the table counts as damaged. An interrupted repair is started again.
        """
        folder = self.root / table.name
        if not open_storage(folder).has_folder():
            # A file in its place.
            open_storage(folder).remove_all()
        logs, old_logs = open_storage(folder / DELTA_LOG_DIR), open_storage(folder / REPAIR_LOG_DIR)
        if old_logs.read(_IS_COPIED) is None:
            _copy_files(logs, old_logs)
            old_logs.add(_IS_COPIED, b"")
        logs.remove_all()
        self._tables.pop(table.name, None)
        self._create_tables()
        return _read_old_log(folder)

    def append_recovered(self, table: Table, files: list[DataFile], transactions: Mapping[str, int]) -> None:
        """Append files to a table that was created again, with the transactions that they contain."""
        self.check_files(files)
        self._commit(
            table.name,
            self.require_table(table.name),
            table.schema,
            files,
            "append",
            CommitProperties(app_transactions=[Transaction(*transaction) for transaction in transactions.items()]),
        )
        folder = self.root / table.name
        old_logs, target = open_storage(folder / REPAIR_LOG_DIR), open_storage(folder / f"{DELTA_LOG_DIR}.damaged")
        target.remove_all()
        _copy_files(old_logs, target)
        old_logs.remove_all()

    def delete_uncommitted(self, files: list[DataFile]) -> None:
        """Delete files that are not part of any commit."""
        for file in files:
            self.storage.remove(f"{file.table}/{file.name}")

    def _evolve_schema(self, name: str, table: DeltaTable, schema: pa.Schema) -> None:
        """Add columns that the table lacks: deltalake rejects an append of new columns."""
        if name in self._evolved:
            return
        for attempts_left in reversed(range(_MAX_COMMIT_ATTEMPTS)):
            missing = _missing_columns(table, schema)
            if not missing:
                break
            try:
                table.alter.add_columns(missing)
            except CommitFailedError:
                # Concurrent commit, possibly of the same columns.
                if not attempts_left:
                    raise
                table.update_incremental()
        self._evolved.add(name)

    def _commit(
        self,
        name: str,
        table: DeltaTable | None,
        schema: pa.Schema,
        files: list[DataFile],
        mode: str,
        properties: CommitProperties,
    ) -> None:
        self.check_lock()
        adds = _add_actions(files, is_data_change=True)
        delta_schema = DeltaSchema.from_arrow(schema)
        if table is None:
            uri = str(self.root / name)
            create_table_with_add_actions(
                uri,
                delta_schema,
                adds,
                mode="error",
                configuration=_TABLE_PROPERTIES,
                storage_options=self.storage.options,
                commit_properties=properties,
            )
        else:
            actions: list[AddAction | RemoveAction] = [*adds]
            table.create_write_transaction(
                actions,
                mode,
                delta_schema,
                [],
                commit_properties=properties,
                post_commithook_properties=WITHOUT_LOG_CLEANUP,
            )


def _copy_files(source: Storage, target: Storage) -> None:
    for file in source.list_files():
        target.add(file.name, source.read(file.name) or b"")


def _add_actions(files: Iterable[DataFile], *, is_data_change: bool) -> list[AddAction]:
    # The clock of the machine that wrote a file may be ahead.
    now = int(time.time() * 1000)
    return [
        AddAction(file.name, file.size, {}, min(file.written_ms, now), is_data_change, file.stats) for file in files
    ]


def _read_old_log(folder: LakeLocation) -> OldTable:
    """Read what can be read of a damaged Delta log."""
    removed: set[str] = set()
    transactions: dict[str, int] = {}
    for action in _readable_actions(folder / REPAIR_LOG_DIR):
        remove, transaction = action.get("remove"), action.get("txn")
        if remove:
            removed.add(unquote(remove["path"]))
        if transaction:
            app_id, version = transaction["appId"], int(transaction["version"])
            transactions[app_id] = max(version, transactions.get(app_id, version))
    files = (file for file in open_storage(folder).list_files() if file.name.endswith(".parquet"))
    names = [file.name for file in sorted(files, key=lambda file: file.written_at) if file.name not in removed]
    return OldTable([str(folder / name) for name in names], transactions)


def _readable_actions(logs: LakeLocation) -> Iterator[dict[str, Any]]:
    storage = open_storage(logs)
    names = sorted(file.name for file in storage.list_files())
    for name in names:
        if ".checkpoint" in name and name.endswith(".parquet"):
            with suppress(OSError, pa.ArrowException):
                rows = pq.ParquetFile(storage.parquet_source(name)).read()
                yield from rows.select([name for name in ("remove", "txn") if name in rows.column_names]).to_pylist()
    for name in names:
        for line in (storage.read(name) or b"").splitlines() if name.endswith(".json") else ():
            with suppress(ValueError):
                action = json.loads(line)
                if isinstance(action, dict):
                    yield action


def _check_facet_order(root: LakeLocation, current: FacetOrder, requested: FacetOrder) -> None:
    if requested is not current:
        message = f"The lake {root} orders facets by {current.description}, not by {requested.description}."
        hint = f"Change it with `clew index rebuild --facet-order {requested.option}`."
        raise UsageError(message, hint=hint)


def _missing_columns(table: DeltaTable, schema: pa.Schema) -> list[Field]:
    present = {field.name for field in table.schema().fields}
    return [field for field in DeltaSchema.from_arrow(schema).fields if field.name not in present]


def _last_batch_number(table: DeltaTable, app_id: str) -> int:
    version = table.transaction_version(app_id)
    return -1 if version is None else version


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


def file_values(table: DeltaTable, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield values of the add action of each file; null if the table has no such statistics."""
    actions = pa.table(table.get_add_actions(flatten=True))
    present = set(actions.column_names)
    lists = (actions[name].to_pylist() if name in present else [None] * len(actions) for name in columns)
    return zip(*lists, strict=True)


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
    lake.check_files(added)
    now = int(time.time() * 1000)
    removes = [RemoveAction(file.name, is_data_change, now, file.size, {}) for file in removed]
    adds = _add_actions(added, is_data_change=is_data_change)
    for _ in range(_MAX_REPLACE_ATTEMPTS):
        lake.check_lock()
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
