"""Facets of runs, jobs and datasets: those that count after all events so far, and what they said before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from clew.errors import ClewError, MissingExtraError
from clew.home import LakePlace
from clew.index.reader import IndexReader
from clew.query.graph.nodes import Node
from clew.query.node_ids import find_node

if TYPE_CHECKING:
    from clew.lake.delta import Lake
    from clew.lake.facet_history import EntityKind, FacetState
    from clew.lake.facets import RunFacets

_BACKFILL = "Events that were taken in raw get their facets with `clew pipeline backfill`."


class JobFacets(Struct, frozen=True):
    """What is known of a job."""

    namespace: str
    name: str
    facets: dict[str, Raw]


class DatasetFacets(Struct, frozen=True):
    """What is known of a dataset in one of its versions."""

    namespace: str
    name: str
    version: str | None
    facets: dict[str, Raw]


def job_facets(index: IndexReader, namespace: str, name: str) -> JobFacets:
    """The facets of a job."""
    facets = _raw(index.facets("job", namespace, name))
    if not facets:
        find_node(index, Node("job", namespace, name).id)
        raise ClewError(f"There are no facets of a job {name!r} in namespace {namespace!r}.", hint=_BACKFILL)
    return JobFacets(namespace, name, facets)


def dataset_facets(index: IndexReader, namespace: str, name: str, version: str | None = None) -> DatasetFacets:
    """The facets of a dataset; without a version, of the one that was described last."""
    known = index.described_versions(namespace, name)
    if not known:
        find_node(index, Node("dataset", namespace, name).id)
    if not known or (version is not None and version not in known):
        which = "" if version is None else f"version {version!r} of "
        raise ClewError(f"There are no facets of {which}a dataset {name!r} in namespace {namespace!r}.", hint=_BACKFILL)
    chosen = known[0] if version is None else version
    return DatasetFacets(namespace, name, chosen, _raw(index.facets("dataset", namespace, name, chosen)))


def run_facets(index: IndexReader, run_uuid: str, lake: LakePlace | None) -> dict[str, Raw]:
    """The facets of a run. One whose events were taken in raw has them from these events, within a bound."""
    known = _raw(index.facets("run", run_uuid))
    if known or lake is None:
        return known
    found = facets_in_lake(run_uuid, lake)
    return {} if found is None else dict(sorted(found.facets.items()))


def has_raw_events(lake: LakePlace) -> bool:
    """Whether events were taken in raw that no backfill has reached: only these have facets in the lake alone."""
    try:
        opened = _lake(lake)
    except MissingExtraError:
        return False
    if opened is None:
        return False
    from clew.lake.raw_only import filled, is_unfilled_anywhere

    return is_unfilled_anywhere(opened, filled(opened))


def facets_in_lake(run_uuid: str, lake: LakePlace) -> RunFacets | None:
    """All that a run's events say, from the lake; None if there is none that can be read."""
    try:
        from clew.lake.facets import facets_of_run

        opened = _lake(lake)
    except MissingExtraError:
        return None
    return None if opened is None else facets_of_run(opened, run_uuid, opened.facet_order)


def history(lake: LakePlace | None, kind: EntityKind, identity: tuple[str, ...], name: str) -> list[FacetState]:
    """What a facet said over time, the newest first."""
    opened = None if lake is None else _lake(lake)
    if opened is None:
        raise ClewError("There is no lake to look back in.", hint="The history of facets is kept by `clew pipeline`.")
    from clew.lake.facet_history import facet_history

    return facet_history(opened, kind, identity, name)


def _lake(root: LakePlace) -> Lake | None:
    # Here, and not above: Arrow and Delta take long to load, and a server may do without them.
    try:
        from clew.lake.delta import Lake
        from clew.lake.format import has_format
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("spark", fault.name or "deltalake") from fault
    return Lake(root) if has_format(root) else None


def _raw(facets: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in sorted(facets.items())}
