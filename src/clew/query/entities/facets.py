"""Facets of runs, jobs and datasets, now and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw

from clew.data_dir import LakeLocation
from clew.errors import ClewError, MissingExtraError
from clew.index.queries.reader import IndexReader
from clew.query.graph.nodes import Node

if TYPE_CHECKING:
    from clew.lake.facets import EntityKind, FacetState, RunFacets
    from clew.lake.lake import Lake


def find_facets(index: IndexReader, node: Node, version: str | None = None) -> tuple[str | None, dict[str, Raw]]:
    """Load the facets of a job or of a dataset version, by default the latest with facets, and that version."""
    if node.kind == "job":
        return None, _raw_facets(index, "job", node.namespace, node.name)
    if version is None:
        version = next(iter(index.versions_with_facets(node.namespace, node.name)), None)
    return version, _raw_facets(index, "dataset", node.namespace, node.name, version)


def find_run_facets(index: IndexReader, run_uuid: str, lake: LakeLocation | None) -> dict[str, Raw]:
    """Load the facets of a run; if its events await a backfill, parse them from the lake, up to a limit."""
    indexed = _raw_facets(index, "run", run_uuid)
    if indexed or lake is None:
        return indexed
    from_lake = read_facets_from_lake(run_uuid, lake)
    return {} if from_lake is None else dict(sorted(from_lake.facets.items()))


def lake_has_pending_backfill(lake: LakeLocation) -> bool:
    """Return whether the lake has raw-only events with facets that are not in the index yet."""
    try:
        opened_lake = _open_lake(lake)
    except MissingExtraError:
        return False
    if opened_lake is None:
        return False
    from clew.lake.backfill_state import has_pending_backfill, read_backfilled_ranges

    return has_pending_backfill(opened_lake, read_backfilled_ranges(opened_lake))


def read_facets_from_lake(run_uuid: str, lake: LakeLocation) -> RunFacets | None:
    """Parse the facets of a run from its events in the lake; None without a readable lake."""
    try:
        from clew.lake.facets import load_run_facets

        opened_lake = _open_lake(lake)
    except MissingExtraError:
        return None
    return None if opened_lake is None else load_run_facets(opened_lake, run_uuid, opened_lake.facet_order)


def get_facet_history(
    lake: LakeLocation | None, kind: EntityKind, identity: tuple[str, ...], name: str
) -> list[FacetState]:
    """Return the values of a facet over time, newest first."""
    opened_lake = None if lake is None else _open_lake(lake)
    if opened_lake is None:
        raise ClewError("There is no lake, so there is no facet history.", hint="Run `clew pipeline run` to create it.")
    from clew.lake.facets import read_facet_history

    return read_facet_history(opened_lake, kind, identity, name)


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
