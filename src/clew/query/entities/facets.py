"""Facets of runs, jobs and datasets, now and over time, also of events that await a backfill."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw
from msgspec.structs import replace

from clew.data_dir import LakeLocation
from clew.errors import ClewError, MissingExtraError
from clew.index.encoding import entity_key, split_key
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.connection import FacetKey, PendingChanges
from clew.index.queries.reader import IndexReader
from clew.index.visibility import NameMask
from clew.query.graph.nodes import Node
from clew.query.names import UnknownNameError

if TYPE_CHECKING:
    from clew.lake.backfill_state import EventSelection
    from clew.lake.facets import EntityKind, FacetState, RunFacets
    from clew.lake.lake import Lake

# Changes that are kept while the index does not change: a page asks several times for the same entities.
_MAX_CACHED: Final = 8
_MAX_CACHED_BYTES: Final = 4 << 20
_MAX_LOOKUPS: Final = 32
# The backfill of the pipeline: the index has the number of its last chunk.
_LAST_CHUNK: Final = "last_batch/clew-backfill"


class NeedsThreadError(Exception):
    """Raised on the event loop if a query must read the lake, which is slow."""


class BackfillState(Protocol):
    """Knows whether a backfill is pending."""

    def has_pending_backfill(self, index: IndexReader) -> bool | None:
        """Return whether a backfill is pending; None if not checked since the index changed."""

    def check_pending_backfill(self, index: IndexReader) -> bool:
        """Check the lake for a pending backfill; may be slow."""


class PendingFacets:
    """Reads facets that a backfill still has to add from the events in the lake, for one index reader.

    One lookup parses at most 1,000 events, newest first; one query at most 64 MB in 32 lookups. `is_truncated` is set
    if there is more.
    """

    def __init__(self, lake: LakeLocation, state: BackfillState) -> None:
        self._lake = lake
        self._state = state
        self._data_version: object = None
        self._is_pending: bool | None = None
        self._cache: dict[frozenset[FacetKey], PendingChanges] = {}
        self._schemas: dict[str, str] = {}
        self.start_query(may_block=True)

    def start_query(self, *, may_block: bool) -> None:
        """Start a query; unless it `may_block`, `NeedsThreadError` is raised instead of reading the lake."""
        self._may_block, self._lookups, self._bytes = may_block, 0, 0
        self.is_truncated = False

    def read_changes(self, index: IndexReader, entities: Collection[FacetKey]) -> PendingChanges | None:
        """Read the changes of entities, of any version of a dataset; None if no backfill is pending."""
        data_version = index.data_version()
        if data_version != self._data_version:
            self._data_version, self._is_pending = data_version, self._state.has_pending_backfill(index)
            self._cache.clear()
            self._schemas.clear()
        if self._is_pending is False:
            return None
        if not self._may_block:
            raise NeedsThreadError
        if self._is_pending is None:
            self._is_pending = self._state.check_pending_backfill(index)
        return self._read(index, frozenset(entities)) if self._is_pending else None

    def find_schema(self, schema_id: str) -> str | None:
        """Return a schema of the changes read last."""
        return self._schemas.get(schema_id)

    def _read(self, index: IndexReader, entities: frozenset[FacetKey]) -> PendingChanges | None:
        changes = self._cache.get(entities)
        if changes is not None:
            return changes
        from clew.lake.backfill_state import MAX_RAW_BYTES, read_backfilled_ranges, read_pending_events

        lake = _open_lake(self._lake)
        if lake is None:
            return None
        if self._lookups >= _MAX_LOOKUPS:
            self.is_truncated = True
            return None
        backfilled = read_backfilled_ranges(lake, _last_chunk(index))
        selection = select_events(index, entities)
        pending = read_pending_events(lake, backfilled, selection, MAX_RAW_BYTES - self._bytes)
        size = sum(len(received.body) for _, received in pending.events)
        self._lookups, self._bytes = self._lookups + 1, self._bytes + size
        self.is_truncated |= not pending.is_complete
        order = lake.facet_order
        extractor = ChangeExtractor(order=order)
        for event, received in pending.events:
            extractor.add(event, received.event_id, received.seq)
        rows = extractor.changes()
        self._schemas |= {row.schema_id: row.fields for row in rows.schemas}
        facets = {(row.kind, row.entity_key): row for row in rows.facets}
        changes = PendingChanges(facets, rows.run_io, rows.dataset_declarations, order)
        if pending.is_complete and size <= _MAX_CACHED_BYTES:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            self._cache[entities] = changes
        return changes


def select_events(index: IndexReader, entities: Iterable[FacetKey]) -> EventSelection:
    """Select the events that may have facets of entities."""
    from clew.lake.backfill_state import MAX_RAW_EVENTS, EventSelection

    runs, jobs, datasets = set[str](), set[tuple[str, str]](), set[tuple[str, str]]()
    for kind, key in entities:
        parts = [part or "" for part in split_key(key)]
        if kind == "job":
            jobs.add((parts[0], parts[1]))
        elif kind == "dataset":
            datasets.add((parts[0], parts[1]))
        else:
            runs.add(parts[0])
    # One more than are read, to notice that there are more.
    users, declaring_jobs = index.usages_of(datasets, MAX_RAW_EVENTS + 1)
    return EventSelection(
        frozenset(runs | users), frozenset(jobs), frozenset(datasets), frozenset(declaring_jobs - jobs)
    )


def find_facets(index: IndexReader, node: Node, version: str | None = None) -> tuple[str | None, dict[str, Raw]]:
    """Load the facets of a job or of a dataset version, by default the current facets, and that version.

    Raise if the dataset has no facets of the version.
    """
    if node.kind == "job":
        return None, _raw_facets(index, "job", node.namespace, node.name)
    if version is None:
        name = node.namespace, node.name
        version, facets = index.dataset_facets_of([name]).get(name, (None, {}))
        return version, dict(sorted(facets.items()))
    versions = index.versions_with_facets(node.namespace, node.name)
    if version not in versions:
        raise UnknownNameError.of(f"version of {node.name}", version, filter(None, versions))
    return version, _raw_facets(index, "dataset", node.namespace, node.name, version)


def find_run_facets(index: IndexReader, run_uuid: str) -> dict[str, Raw]:
    """Load the facets of a run."""
    return _raw_facets(index, "run", run_uuid)


def lake_has_pending_backfill(lake: LakeLocation, index: IndexReader) -> bool:
    """Return whether the lake has raw-only events with facets that are not in the index yet."""
    try:
        from clew.lake.history import has_raw_events

        if not has_raw_events(lake):
            return False
        opened_lake = _open_lake(lake)
    except (ModuleNotFoundError, MissingExtraError):
        return False
    if opened_lake is None:
        return False
    from clew.lake.backfill_state import has_pending_backfill, read_backfilled_ranges

    return has_pending_backfill(opened_lake, read_backfilled_ranges(opened_lake, _last_chunk(index)))


def _last_chunk(index: IndexReader) -> int | None:
    """Return the last backfilled chunk in this snapshot of the index: later ones are still pending for it."""
    number = index.meta(_LAST_CHUNK)
    return None if number is None else int(number)


def read_facets_from_lake(run_uuid: str, lake: LakeLocation) -> RunFacets | None:
    """Parse the facets of a run from its events in the lake; None without a readable lake."""
    try:
        from clew.lake.facets import load_run_facets

        opened_lake = _open_lake(lake)
    except MissingExtraError:
        return None
    return None if opened_lake is None else load_run_facets(opened_lake, run_uuid, opened_lake.facet_order)


def get_facet_history(
    index: IndexReader, lake: LakeLocation | None, kind: EntityKind, identity: tuple[str, ...], name: str
) -> list[FacetState]:
    """Return the values of a facet over time, newest first."""
    opened_lake = None if lake is None else _open_lake(lake)
    if opened_lake is None:
        raise ClewError("There is no lake, so there is no facet history.", hint="Run `clew pipeline run` to create it.")
    from clew.lake.facets import read_facet_history

    selection = select_events(index, [(kind, entity_key(*identity))])
    states = read_facet_history(opened_lake, kind, identity, name, selection)
    mask = index.mask
    if mask is None:
        return states
    # The lake has runs that are not visible, too.
    is_hidden = kind == "run" and index.run(identity[0]) is None
    return [] if is_hidden else [_mask_state(state, mask) for state in states]


def _mask_state(state: FacetState, mask: NameMask) -> FacetState:
    return state if state.facet is None else replace(state, facet=Raw(mask.mask_json(bytes(state.facet))))


def _open_lake(root: LakeLocation) -> Lake | None:
    # Imported lazily: Arrow and Delta load slowly, and a server can run without them.
    try:
        from clew.lake.lake import Lake
        from clew.lake.manifest import lake_exists
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("spark", error.name or "deltalake") from error
    return Lake(root) if lake_exists(root) else None


def _raw_facets(index: IndexReader, kind: str, *identity: str | None) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in index.facets(kind, *identity).items()}
