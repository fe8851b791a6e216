"""The lake: Delta tables in one place, committed without a JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
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

from clew.errors import ClewError, UsageError
from clew.events.facet_order import FacetOrder
from clew.home import LakePlace
from clew.lake.files import DataFile
from clew.lake.format import read_marker, write_format
from clew.lake.soundness import require_nothing_left, require_whole
from clew.lake.storage import COMMITS, storage_at, told_of
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, KEPT_TABLE_NAMES, KEPT_TABLES

_DERIVED = "clew-derived"
# What workers tell the driver, while a batch is being taken in.
REPORTS: Final = ".reports"
_TRIES = 5
# Every commit lists the whole log of its table, three times over, and a busy stream commits 100,000 times a day.
_PROPERTIES: Final = {"delta.logRetentionDuration": "interval 1 hours"}
# Else deltalake asks for the age of every file in the log after each commit: 13 ms if there are 2,000. Upkeep does so.
WITHOUT_LOG_CLEANUP: Final = PostCommitHookProperties(cleanup_expired_logs=False)


@dataclass(frozen=True)
class Batch:
    """Which batch of which pipeline a commit belongs to: the same batch is committed once."""

    app: str
    number: int

    def __str__(self) -> str:
        return f"{self.app}/{self.number}"


class Lake:
    """The tables below `root`. A lock that may be lost is asked for before each commit."""

    def __init__(self, root: LakePlace, require_lock: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self.storage = storage_at(root)
        self._require_lock = require_lock
        self._open: dict[str, DeltaTable] = {}
        self._wide: set[str] = set()

    def prepare(self, facet_order: FacetOrder | None = None) -> None:
        """Make the lake, or tables that are new; refuse one that a newer clew has written, and half of one.

        A lake has its facet order for good: another one is refused.
        """
        marker = read_marker(self.root)
        if marker is None:
            require_nothing_left(self.root, KEPT_TABLE_NAMES)
        else:
            require_whole(self.root, marker)
            _require_order(self.root, marker.facet_order, facet_order or marker.facet_order)
        if marker is None or marker.id is None or set(KEPT_TABLE_NAMES) - set(marker.tables):
            self._make(facet_order)

    @property
    def facet_order(self) -> FacetOrder:
        """Which of several facets of one name counts."""
        marker = read_marker(self.root)
        return FacetOrder.RECEIVED if marker is None else marker.facet_order

    def set_facet_order(self, order: FacetOrder) -> None:
        """Let facets count in another order; index and derived tables have to be built anew."""
        write_format(self.root, KEPT_TABLE_NAMES, order)

    def _make(self, facet_order: FacetOrder | None) -> None:
        try:
            with told_of(self.root):
                self._make_tables()
            write_format(self.root, KEPT_TABLE_NAMES, facet_order)
        except (OSError, DeltaError) as fault:
            message = f"The lake {self.root} cannot be written: {getattr(fault, 'strerror', None) or fault}."
            raise ClewError(message, hint="Choose another with --lake, CLEW_LAKE or --home DIR.") from fault

    def _make_tables(self) -> None:
        self.storage.make()
        for table in KEPT_TABLES:
            uri, schema = str(self.root / table.name), DeltaSchema.from_arrow(table.schema)
            options = self.storage.options
            DeltaTable.create(uri, schema, mode="ignore", configuration=_PROPERTIES, storage_options=options)

    def table(self, name: str) -> DeltaTable | None:
        """The newest state of a table, or None where nothing was written yet."""
        table = self._open.get(name)
        try:
            if table is None or not self.storage.has_folder(f"{name}/{COMMITS}"):
                self._open.pop(name, None)
                table = self._open[name] = self.storage.open_table(name)
            else:
                table.update_incremental()
        except TableNotFoundError:
            return None
        return table

    def files(self, name: str) -> list[str]:
        """The Parquet files that make up a table now."""
        table = self.table(name)
        # Only the names of its URIs: those that deltalake gives are encoded, and a folder may hold a space.
        folder = self.root / name
        return [] if table is None else [str(folder / uri.rpartition("/")[2]) for uri in table.file_uris()]

    def size(self, name: str) -> int:
        """Bytes of a table's files."""
        table = self.table(name)
        return 0 if table is None else sum(table.get_add_actions(flatten=True).column("size_bytes").to_pylist())

    def row_counts(self) -> dict[str, int]:
        """Rows of each table that there is."""
        tables = {name: self.table(name) for name in (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES)}
        return {name: table.count() for name, table in tables.items() if table is not None}

    def append(self, name: str, schema: pa.Schema, files: list[DataFile], batch: Batch) -> bool:
        """Add files to a table under the batch's name; False if that batch is in it already."""
        table = self.table(name)
        if table is not None:
            if _last_batch(table, batch.app) >= batch.number:
                return False
            self._widen(name, table, schema)
        properties = CommitProperties(app_transactions=[Transaction(batch.app, batch.number)])
        self._commit(name, table, schema, files, "append", properties)
        return True

    def replace(self, name: str, schema: pa.Schema, files: list[DataFile], batch: Batch) -> None:
        """Let a table consist of these files alone, under the batch's name."""
        properties = CommitProperties(app_transactions=[Transaction(batch.app, batch.number)])
        self._commit(name, self.table(name), schema, files, "overwrite", properties)

    def state_of_events(self) -> Batch:
        """A name for what the event tables hold now: it changes when rows come in, not when files are merged.

        What follows from them follows from the order of facets, too.
        """
        counts = [table.count() for name in EVENT_TABLE_NAMES if (table := self.table(name)) is not None]
        return Batch(_DERIVED, 2 * sum(counts) + (self.facet_order is FacetOrder.EVENT_TIME))

    def is_derived_from(self, state: Batch) -> bool:
        """Whether all derived tables follow from that state of the event tables."""
        tables = [self.table(name) for name in DERIVED_TABLE_NAMES]
        return all(table is not None and _last_batch(table, state.app) == state.number for table in tables)

    def discard(self, files: list[DataFile]) -> None:
        """Remove files that no commit names."""
        for file in files:
            self.storage.remove(f"{file.table}/{file.name}")

    def _widen(self, name: str, table: DeltaTable, schema: pa.Schema) -> None:
        """Add the columns that a table made by an older clew lacks: deltalake refuses to append them."""
        if name in self._wide:
            return
        for tries_left in reversed(range(_TRIES)):
            new = _missing_columns(table, schema)
            if not new:
                break
            try:
                table.alter.add_columns(new)
            except CommitFailedError:
                # Someone else has committed in the same moment, perhaps these very columns: look again.
                if not tries_left:
                    raise
                table.update_incremental()
        self._wide.add(name)

    def _commit(
        self,
        name: str,
        table: DeltaTable | None,
        schema: pa.Schema,
        files: list[DataFile],
        mode: str,
        properties: CommitProperties,
    ) -> None:
        self._require_lock()
        adds = [AddAction(file.name, file.size, {}, file.written_ms, True, file.stats) for file in files]  # noqa: FBT003
        delta_schema = DeltaSchema.from_arrow(schema)
        if table is None:
            uri = str(self.root / name)
            create_table_with_add_actions(
                uri,
                delta_schema,
                adds,
                mode="error",
                configuration=_PROPERTIES,
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


def _require_order(root: LakePlace, known: FacetOrder, wanted: FacetOrder) -> None:
    if wanted is not known:
        message = f"The lake {root} orders facets by {known.words}, not by {wanted.words}."
        hint = f"Change it with `clew index rebuild --facet-order {wanted.option}`: what follows is then built anew."
        raise UsageError(message, hint=hint)


def _missing_columns(table: DeltaTable, schema: pa.Schema) -> list[Field]:
    present = {field.name for field in table.schema().fields}
    return [field for field in DeltaSchema.from_arrow(schema).fields if field.name not in present]


def _last_batch(table: DeltaTable, app: str) -> int:
    version = table.transaction_version(app)
    return -1 if version is None else version
