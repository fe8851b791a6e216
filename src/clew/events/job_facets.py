"""Parsers of job facets: jobType, sourceCodeLocation and documentation."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import cached_by_bytes, decode_facet, get_str


class JobType(NamedTuple):
    """Content of the `jobType` facet."""

    job_type: str | None
    integration: str | None
    processing_type: str | None


@cached_by_bytes
def parse_job_type(facet: bytes) -> JobType:
    """Parse a `jobType` facet."""
    value = decode_facet(facet)
    return JobType(get_str(value, "jobType"), get_str(value, "integration"), get_str(value, "processingType"))


@cached_by_bytes
def parse_source_code_location(facet: bytes) -> str | None:
    """Parse a `sourceCodeLocation` facet to `url`, or else repository and path, followed by `@version`."""
    value = decode_facet(facet)
    parts = [part for part in (get_str(value, "repoUrl"), get_str(value, "path")) if part]
    location, version = get_str(value, "url") or "/".join(parts), get_str(value, "version")
    return (f"{location}@{version}" if version else location) or None


@cached_by_bytes
def parse_description(facet: bytes) -> str | None:
    """Parse the description of a `documentation` facet of a job or a dataset."""
    return get_str(decode_facet(facet), "description")
