"""Connection to an index: snapshots, queries, version and facets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol, Self

from msgspec.structs import replace

from clew.data_dir import IndexLocation
from clew.events.facets import FacetOrder
from clew.index.backends import open_backend
from clew.index.backends.base import Row
from clew.index.backends.sqlite import BUSY_SECONDS, read_dictionaries
from clew.index.changes import DatasetDeclarationRow, FacetsRow, RunIoRow
from clew.index.encoding import (
    DELETED,
    FacetDecoder,
    StoredFacet,
    dataset_key,
    entity_key,
    merge_facets,
    prefix_end,
    run_dataset_key,
    split_key,
)
from clew.index.visibility import NameMask

# All names of the dataset with namespace ?1 and name ?2.
ALIASES_CTE = """with names (namespace, name) as (
    select ?1, ?2 union select other.namespace, other.name
    from dataset_aliases own join dataset_aliases other using (canonical_namespace, canonical_name)
    where own.namespace = ?1 and own.name = ?2)"""
_VERSION = "select key, value from meta where key in ('identity', 'indexed_seq', 'indexed_at', 'last_batch')"


class IndexVersion(NamedTuple):
    """Identity of an index, and position, time and name of its last batch."""

    identity: str
    indexed_seq: int
    indexed_at: str
    last_batch: str


# Kind and key of a row of the table `facets`.
FacetKey = tuple[str, str]


class PendingChanges(NamedTuple):
    """Rows of events that await a backfill; a facet row has the newest facet of each name."""

    facets: dict[FacetKey, FacetsRow]
    run_io: list[RunIoRow]
    declarations: list[DatasetDeclarationRow]
    order: FacetOrder


class PendingSource(Protocol):
    """Reads changes that a backfill still has to make to the index; not all of them if `is_truncated`."""

    is_truncated: bool

    def start_query(self, *, may_block: bool) -> None:
        """Start a query, which may take long if it `may_block`."""

    def read_changes(self, index: Any, entities: Collection[FacetKey]) -> PendingChanges | None:
        """Read the changes of entities, of any version of a dataset; None if no backfill is pending."""

    def find_schema(self, schema_id: str) -> str | None:
        """Return a schema of the changes read last."""


class IndexConnection:
    """Read-only connection to an index. With `pending`, facets include those that a backfill still has to add.

    With `namespaces`, names outside the namespaces with these prefixes are not shown; `mask` replaces them.
    """

    pending: PendingSource | None = None
    mask: NameMask | None = None

    def __init__(
        self, location: IndexLocation, busy_seconds: float = BUSY_SECONDS, namespaces: Sequence[str] = ()
    ) -> None:
        self._database = open_backend(location).reader(busy_seconds)
        try:
            if namespaces:
                self.mask = NameMask(namespaces, self.version().identity)
                self._database.limit_names(self.mask)
            self._decoder = self._load_decoder()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of the block see the same state."""
        self._database.execute("begin")
        try:
            yield
        finally:
            if self._database.in_transaction:
                self._database.execute("rollback")

    def query(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._database.execute(query, values).fetchall()

    def query_one(self, query: str, *values: object) -> Row | None:
        """Return the first row of a query, if any."""
        row: Row | None = self._database.execute(query, values).fetchone()
        return row

    def stream(self, query: str, *values: object) -> Iterator[Any]:
        """Yield the rows of a query as plain tuples, which are cheaper than named rows."""
        return self._database.execute_tuples(query, values)

    def count(self, query: str, *values: object) -> int:
        """Return the number that a query selects."""
        row = self.query_one(query, *values)
        return 0 if row is None else int(row[0])

    def meta(self, key: str) -> str | None:
        """Return a value of the table `meta`, such as `indexed_at`, `indexed_seq` or `last_batch`."""
        row = self.query_one("select value from meta where key = ?", key)
        return None if row is None else str(row["value"])

    def version(self) -> IndexVersion:
        """Return the identity and the position of the index."""
        meta = {row["key"]: str(row["value"]) for row in self.query(_VERSION)}
        return IndexVersion(
            meta.get("identity", ""),
            int(meta.get("indexed_seq", "0")),
            meta.get("indexed_at", ""),
            meta.get("last_batch", ""),
        )

    def has_event(self, event_id: str) -> bool:
        """Return True if an event was ingested; rejected events do not count."""
        return self.query_one("select 1 from events where event_id = ?", bytes.fromhex(event_id)) is not None

    def dataset_facet(self, namespace: str, name: str, version: str | None, facet: str) -> bytes | None:
        """Return a facet of a dataset version."""
        return self._facet("dataset", dataset_key(namespace, name, version), facet)

    def run_dataset_facet(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str, facet: str
    ) -> bytes | None:
        """Return an input or output facet of a run."""
        return self._facet(direction.lower(), run_dataset_key(run_uuid, dataset_key(namespace, name, version)), facet)

    def run_dataset_facets(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str
    ) -> dict[str, bytes]:
        """Return all input or output facets of a run by name."""
        return self.facets(direction.lower(), run_dataset_key(run_uuid, dataset_key(namespace, name, version)))

    def facets(self, kind: str, *identity: str | None) -> dict[str, bytes]:
        """Return all facets of an entity by name."""
        facets = sorted(self._facets(kind, entity_key(*identity)), key=attrgetter("name"))
        return {facet.name: facet.body for facet in facets if facet.body != DELETED}

    def versions_with_facets(self, namespace: str, name: str) -> list[str | None]:
        """Return the versions of a dataset that have facets, most recent facets first."""
        begin = entity_key(namespace, name, "")
        rows = self.query(
            "select entity_key, last_seq from facets where kind = 'dataset' and entity_key >= ? and entity_key < ?",
            begin,
            prefix_end(begin),
        )
        seqs: dict[str, int] = {row["entity_key"]: row["last_seq"] for row in rows}
        for (kind, key), row in self.pending_facets([("dataset", begin)]).items():
            if kind == "dataset" and key.startswith(begin):
                seqs[key] = max(row.last_seq, seqs.get(key, -1))
        newest_first = sorted(seqs.items(), key=itemgetter(1, 0), reverse=True)
        return [split_key(key)[2] for key, _ in newest_first]

    @property
    def has_truncated_facets(self) -> bool:
        """Return whether facets of this query may be missing until a backfill."""
        return self.pending is not None and self.pending.is_truncated

    def pending_changes(self, entities: Collection[FacetKey]) -> PendingChanges | None:
        """Return what a backfill still has to add to entities; None if nothing."""
        return self.pending.read_changes(self, entities) if self.pending is not None and entities else None

    def pending_facets(self, entities: Collection[FacetKey]) -> dict[FacetKey, FacetsRow]:
        """Return the facets that a backfill still has to add to entities, and possibly to others."""
        changes = self.pending_changes(entities)
        return {} if changes is None else changes.facets

    def _facet(self, kind: str, key: str, name: str) -> bytes | None:
        bodies = (facet.body for facet in self._facets(kind, key) if facet.name == name)
        return next(bodies, DELETED) or None

    def _facets(self, kind: str, key: str) -> list[StoredFacet]:
        row = self.query_one("select body from facets where kind = ? and entity_key = ?", kind, key)
        stored = [] if row is None else self._decode_blob(row["body"])
        changes = self.pending_changes([(kind, key)])
        return stored if changes is None else self._merge_pending(stored, (kind, key), changes)

    def _merge_pending(self, stored: list[StoredFacet], entity: FacetKey, changes: PendingChanges) -> list[StoredFacet]:
        """Merge the stored facets of an entity with those that await a backfill."""
        row = changes.facets.get(entity)
        return stored if row is None else merge_facets(stored, self._decode_blob(row.body), changes.order)

    def _decode_blob(self, body: bytes) -> list[StoredFacet]:
        try:
            facets = self._decoder.decode(body)
        except KeyError:
            # The dictionary was added after this reader was opened.
            self._decoder = self._load_decoder()
            facets = self._decoder.decode(body)
        mask = self.mask
        if mask is None:
            return facets
        return [replace(facet, body=mask.mask_json(facet.body)) for facet in facets]

    def _load_decoder(self) -> FacetDecoder:
        return FacetDecoder(read_dictionaries(self._database))
