"""The lake: Delta tables in one folder, committed without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    RemoveAction,
    Transaction,
    create_table_with_add_actions,
)

from clew.errors import ClewError
from clew.lake.files import DataFile
from clew.lake.format import has_format, write_format
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES

_DERIVED = "clew-derived"


@dataclass(frozen=True)
class Batch:
    """Which batch of which pipeline a commit belongs to: the same batch is committed once."""

    app: str
    number: int

    def __str__(self) -> str:
        return f"{self.app}/{self.number}"


class Lake:
    """The tables below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[str, DeltaTable] = {}

    def prepare(self) -> None:
        """Make the folder if it is new; refuse one that a newer clew has written."""
        if has_format(self.root):
            return
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            for table in EVENT_TABLES:
                DeltaTable.create(str(self.root / table.name), DeltaSchema.from_arrow(table.schema), mode="ignore")
            write_format(self.root)
        except (OSError, DeltaError) as fault:
            message = f"The lake {self.root} cannot be written: {getattr(fault, 'strerror', None) or fault}."
            raise ClewError(message, hint="Choose another folder with --home DIR or CLEW_HOME.") from fault

    def table(self, name: str) -> DeltaTable | None:
        """The newest state of a table, or None where nothing was written yet."""
        table = self._open.get(name)
        try:
            if table is None or not (self.root / name / "_delta_log").is_dir():
                self._open.pop(name, None)
                table = self._open[name] = DeltaTable(str(self.root / name))
            else:
                table.update_incremental()
        except TableNotFoundError:
            return None
        return table

    def files(self, name: str) -> list[str]:
        """The Parquet files that make up a table now."""
        table = self.table(name)
        return [] if table is None else table.file_uris()

    def row_counts(self) -> dict[str, int]:
        """Rows of each table that there is."""
        tables = {name: self.table(name) for name in (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)}
        return {name: table.count() for name, table in tables.items() if table is not None}

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: Batch) -> bool:
        """Add files to a table under the batch's name; False if that batch is in it already."""
        table = self.table(name)
        if table is not None and _last_batch(table, batch.app) >= batch.number:
            return False
        properties = CommitProperties(app_transactions=[Transaction(batch.app, batch.number)])
        self._commit(name, table, schema, files, "append", properties)
        return True

    def replace(self, name: str, schema: pa.Schema, files: list[DataFile], batch: Batch) -> None:
        """Let a table consist of these files alone, under the batch's name."""
        properties = CommitProperties(app_transactions=[Transaction(batch.app, batch.number)])
        self._commit(name, self.table(name), schema, files, "overwrite", properties)

    def state_of_events(self) -> Batch:
        """A name for what the event tables hold now: it changes when rows come in, not when files are merged."""
        counts = [table.count() for name in EVENT_TABLE_NAMES if (table := self.table(name)) is not None]
        return Batch(_DERIVED, sum(counts))

    def is_derived_from(self, state: Batch) -> bool:
        """Whether all derived tables follow from that state of the event tables."""
        tables = [self.table(name) for name in DERIVED_TABLE_NAMES]
        return all(table is not None and _last_batch(table, state.app) == state.number for table in tables)

    def discard(self, files: list[DataFile]) -> None:
        """Remove files that no commit names."""
        for file in files:
            (self.root / file.table / file.name).unlink(missing_ok=True)

    def _commit(
        self,
        name: str,
        table: DeltaTable | None,
        schema: pa.Schema,
        files: list[DataFile],
        mode: str,
        properties: CommitProperties,
    ) -> None:
        adds = [AddAction(file.name, file.size, {}, file.written_ms, True, file.stats) for file in files]  # noqa: FBT003
        delta_schema = DeltaSchema.from_arrow(schema)
        if table is None:
            uri = str(self.root / name)
            create_table_with_add_actions(uri, delta_schema, adds, mode="error", commit_properties=properties)
        else:
            actions: list[AddAction | RemoveAction] = [*adds]
            table.create_write_transaction(actions, mode, delta_schema, [], commit_properties=properties)


def _last_batch(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version
