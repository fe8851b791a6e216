"""What the facets of a run say of it: its parent, its nominal time, its error."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facet_values import remembered, text_in, value_of
from clew.events.timestamps import microseconds, parse_time


class Ancestor(NamedTuple):
    """A run that is named as parent or root, and the job that it is said to be of, if that is named in full."""

    run_uuid: str
    job: tuple[str, str] | None


class Parent(NamedTuple):
    """What the `parent` facet says: run, job's namespace and job's name of the parent, then of the root."""

    names: tuple[str | None, ...]
    ancestors: tuple[Ancestor, ...]


class NominalTime(NamedTuple):
    """The time that a run is for, in microseconds; None for what is no time."""

    start_at: int | None
    end_at: int | None


class RunError(NamedTuple):
    """What the `errorMessage` facet says."""

    message: str | None
    language: str | None


@remembered
def parent_of(facet: bytes) -> Parent:
    """Read a `parent` facet."""
    value = value_of(facet)
    names = [_names(value), _names(value.get("root"))]
    return Parent((*names[0], *names[1]), tuple(_ancestor(*found) for found in names if found[0]))


@remembered
def nominal_time_of(facet: bytes) -> NominalTime:
    """Read a `nominalTime` facet."""
    value = value_of(facet)
    return NominalTime(moment_of(text_in(value, "nominalStartTime")), moment_of(text_in(value, "nominalEndTime")))


def error_of(facet: bytes) -> RunError:
    """Read an `errorMessage` facet."""
    value = value_of(facet)
    return RunError(text_in(value, "message"), text_in(value, "programmingLanguage"))


def _names(value: object) -> tuple[str | None, str | None, str | None]:
    return text_in(value, "run", "runId"), text_in(value, "job", "namespace"), text_in(value, "job", "name")


def _ancestor(run_uuid: str | None, namespace: str | None, name: str | None) -> Ancestor:
    return Ancestor(run_uuid or "", None if namespace is None or name is None else (namespace, name))


def moment_of(text: str | None) -> int | None:
    """A time in microseconds; None for what is no time."""
    try:
        return None if text is None else microseconds(parse_time(text))
    except ValueError:
        return None
