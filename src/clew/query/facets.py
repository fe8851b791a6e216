"""Facets of jobs and datasets, as the index has them: those that count after all events so far."""

from __future__ import annotations

from msgspec import Raw, Struct

from clew.errors import ClewError
from clew.index.reader import IndexReader

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
        raise ClewError(f"There are no facets of a job {name!r} in namespace {namespace!r}.", hint=_BACKFILL)
    return JobFacets(namespace, name, facets)


def dataset_facets(index: IndexReader, namespace: str, name: str, version: str | None = None) -> DatasetFacets:
    """The facets of a dataset; without a version, of the one that was described last."""
    known = index.described_versions(namespace, name)
    if not known or (version is not None and version not in known):
        which = "" if version is None else f"version {version!r} of "
        raise ClewError(f"There are no facets of {which}a dataset {name!r} in namespace {namespace!r}.", hint=_BACKFILL)
    chosen = known[0] if version is None else version
    return DatasetFacets(namespace, name, chosen, _raw(index.facets("dataset", namespace, name, chosen, None)))


def _raw(facets: dict[str, bytes]) -> dict[str, Raw]:
    return {name: Raw(body) for name, body in sorted(facets.items())}
