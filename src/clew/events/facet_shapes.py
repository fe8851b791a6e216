"""What the standard facets must hold to be read, and why one that does not cannot be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from clew.events.deletion import is_deleted
from clew.events.documents import part
from clew.events.run_facets import moment_of

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_NULL = Raw(b"null")
_PLAIN_TEXT = r'"[^"\\]*"'


class Flaw(StrEnum):
    """Why a facet, or what stands at a place of it, cannot be read. Spec: a facet is an object."""

    NULL = "null"
    MISSING = "missing"
    NOT_AN_OBJECT = "not_an_object"
    NOT_A_LIST = "not_a_list"
    NOT_A_TEXT = "not_a_text"
    NOT_A_TIME = "not_a_time"
    NOT_A_NUMBER = "not_a_number"

    def at(self, path: str) -> str:
        """The flaw with its place, as tables show it."""
        return f"{self}:{path}"


class Kind(NamedTuple):
    """A kind of value: its flaw if it is something else, how to tell, and a pattern of the openings that tell."""

    flaw: Flaw
    is_held: Callable[[Raw], bool]
    opening: str


class Shape(NamedTuple):
    """What a facet holds, by path: it can be read if one of these is there as it should be.

    Where the spec asks for none of them, it can be read without them, too.
    """

    parts: Mapping[str, Kind]
    is_required: bool = True


def flaw_of(facet: bytes, shape: Shape) -> str | None:
    """Why a facet, which is an object, cannot be read; None if it can, or was deleted."""
    held = {path: _at(path, facet) for path in shape.parts}
    if any(shape.parts[path].is_held(value) for path, value in held.items()) or is_deleted(facet):
        return None
    wrong = next((path for path, value in held.items() if value != _NULL), None)
    if wrong is not None:
        return shape.parts[wrong].flaw.at(wrong)
    return Flaw.MISSING.at(next(iter(held))) if shape.is_required else None


def sound_opening(facet: str, shape: Shape) -> str | None:
    """How a sound facet begins, up to where it is seen to be sound: all that begin so are. None if it is not."""
    if flaw_of(facet.encode(), shape) is not None:
        return None
    found = (_opening(path, kind.opening).match(facet) for path, kind in shape.parts.items())
    return next((match[0] for match in found if match), None)


def _at(path: str, facet: bytes) -> Raw:
    value = Raw(facet)
    for step in path.split("."):
        value = (part(value, _decode_object) or {}).get(step, _NULL)
    return value


@cache
def _opening(path: str, of_value: str) -> re.Pattern[str]:
    """Texts may stand before the key, as `_producer` does, but nothing that is nested."""
    texts = rf"(?:\s*{_PLAIN_TEXT}\s*:\s*{_PLAIN_TEXT}\s*,)*"
    steps = (rf'\{{{texts}\s*"{step}"\s*:\s*' for step in path.split("."))
    return re.compile("".join(steps) + of_value)


def _begins(beginnings: bytes) -> Callable[[Raw], bool]:
    return lambda value: bytes(value)[:1] in beginnings


def _is_time(value: Raw) -> bool:
    return moment_of(part(value, _decode_text)) is not None


_LIST = Kind(Flaw.NOT_A_LIST, _begins(b"["), r"\[")
_OBJECT = Kind(Flaw.NOT_AN_OBJECT, _begins(b"{"), r"\{")
_TEXT = Kind(Flaw.NOT_A_TEXT, _begins(b'"'), '"')
_TIME = Kind(Flaw.NOT_A_TIME, _is_time, _PLAIN_TEXT)
_NUMBER = Kind(Flaw.NOT_A_NUMBER, _begins(b"-0123456789"), "[-0-9]")

_TAGS = Shape({"tags": _LIST}, is_required=False)
_OWNERSHIP = Shape({"owners": _LIST}, is_required=False)
_DOCUMENTATION = Shape({"description": _TEXT})
_COUNT = Shape({"rowCount": _NUMBER}, is_required=False)

RUN_SHAPES: Final[Mapping[str, Shape]] = {
    "parent": Shape({"run.runId": _TEXT}),
    "nominalTime": Shape({"nominalStartTime": _TIME}),
    "errorMessage": Shape({"message": _TEXT}),
    "tags": _TAGS,
}
JOB_SHAPES: Final[Mapping[str, Shape]] = {
    "jobType": Shape({"processingType": _TEXT, "integration": _TEXT, "jobType": _TEXT}),
    "sourceCodeLocation": Shape({"url": _TEXT, "repoUrl": _TEXT, "path": _TEXT}),
    "documentation": _DOCUMENTATION,
    "ownership": _OWNERSHIP,
    "tags": _TAGS,
    "lineage": Shape({"entries": _LIST}),
}
DATASET_SHAPES: Final[Mapping[str, Shape]] = {
    "schema": Shape({"fields": _LIST}, is_required=False),
    "symlinks": Shape({"identifiers": _LIST}, is_required=False),
    "lifecycleStateChange": Shape({"lifecycleStateChange": _TEXT}),
    "version": Shape({"datasetVersion": _TEXT}),
    "columnLineage": Shape({"fields": _OBJECT, "dataset": _LIST}),
    "lineage": Shape({"inputs": _LIST, "fields": _OBJECT}, is_required=False),
    "documentation": _DOCUMENTATION,
    "ownership": _OWNERSHIP,
    "tags": _TAGS,
    "dataQualityMetrics": _COUNT,
    "columnMetrics": _COUNT,
    "inputStatistics": _COUNT,
    "outputStatistics": _COUNT,
}
