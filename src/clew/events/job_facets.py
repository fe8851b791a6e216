"""What the facets of a job say of it: its type, where its code is, what it is for."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import remembered, text_in, value_of


class JobType(NamedTuple):
    """What the `jobType` facet says."""

    job_type: str | None
    integration: str | None
    processing_type: str | None


@remembered
def job_type_of(facet: bytes) -> JobType:
    """Read a `jobType` facet."""
    value = value_of(facet)
    return JobType(text_in(value, "jobType"), text_in(value, "integration"), text_in(value, "processingType"))


@remembered
def location_of(facet: bytes) -> str | None:
    """Where a job's code is, by its `sourceCodeLocation` facet: `url`, else repository and path, then `@version`."""
    value = value_of(facet)
    parts = [part for part in (text_in(value, "repoUrl"), text_in(value, "path")) if part]
    place, version = text_in(value, "url") or "/".join(parts), text_in(value, "version")
    return (f"{place}@{version}" if version else place) or None


@remembered
def description_of(facet: bytes) -> str | None:
    """Read a `documentation` facet, of a job or of a dataset."""
    return text_in(value_of(facet), "description")
