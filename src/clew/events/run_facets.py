"""Parsers of run facets: parent, nominalTime and errorMessage."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import cached_by_bytes, decode_facet, get_str
from clew.events.timestamps import parse_time, to_epoch_micros


class RunRef(NamedTuple):
    """Reference to a parent or root run, with its job if namespace and name are present."""

    run_uuid: str
    job: tuple[str, str] | None


class ParentFacet(NamedTuple):
    """Content of the `parent` facet; `names` are run id, job namespace and job name of the parent, then of the root."""

    names: tuple[str | None, ...]
    runs: tuple[RunRef, ...]


class NominalTime(NamedTuple):
    """Nominal start and end in epoch microseconds; None if missing or invalid."""

    start_at: int | None
    end_at: int | None


class RunError(NamedTuple):
    """Content of the `errorMessage` facet."""

    message: str | None
    language: str | None


@cached_by_bytes
def parse_parent(facet: bytes) -> ParentFacet:
    """Parse a `parent` facet."""
    value = decode_facet(facet)
    names = [_names(value), _names(value.get("root"))]
    return ParentFacet((*names[0], *names[1]), tuple(_run_ref(*name) for name in names if name[0]))


@cached_by_bytes
def parse_nominal_time(facet: bytes) -> NominalTime:
    """Parse a `nominalTime` facet."""
    value = decode_facet(facet)
    return NominalTime(
        parse_epoch_micros(get_str(value, "nominalStartTime")), parse_epoch_micros(get_str(value, "nominalEndTime"))
    )


def parse_run_error(facet: bytes) -> RunError:
    """Parse an `errorMessage` facet."""
    value = decode_facet(facet)
    return RunError(get_str(value, "message"), get_str(value, "programmingLanguage"))


def _names(value: object) -> tuple[str | None, str | None, str | None]:
    return get_str(value, "run", "runId"), get_str(value, "job", "namespace"), get_str(value, "job", "name")


def _run_ref(run_uuid: str | None, namespace: str | None, name: str | None) -> RunRef:
    return RunRef(run_uuid or "", None if namespace is None or name is None else (namespace, name))


def parse_epoch_micros(text: str | None) -> int | None:
    """Parse a timestamp to epoch microseconds; None if it is invalid."""
    try:
        return None if text is None else to_epoch_micros(parse_time(text))
    except ValueError:
        return None
