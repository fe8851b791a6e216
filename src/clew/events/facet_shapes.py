"""Checks of the fields that clew needs in standard facets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from clew.events.deletion import is_deleted
from clew.events.documents import decode_optional
from clew.events.run_facets import parse_epoch_micros

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_str = msgspec.json.Decoder(str).decode
_NULL = Raw(b"null")
_SIMPLE_STRING = r'"[^"\\]*"'


class FacetErrorCode(StrEnum):
    """Reason why a facet, or a field of it, cannot be parsed. Spec: a facet is an object."""

    NULL = "null"
    MISSING = "missing"
    NOT_AN_OBJECT = "not_an_object"
    NOT_A_LIST = "not_a_list"
    NOT_A_STRING = "not_a_string"
    NOT_A_TIMESTAMP = "not_a_timestamp"
    NOT_A_NUMBER = "not_a_number"

    def at(self, path: str) -> str:
        """Format the code and the path as in the column `facet_error`."""
        return f"{self}:{path}"


class JsonType(NamedTuple):
    """A JSON type: error code of other values, type check, and regex of the first characters of a value."""

    error_code: FacetErrorCode
    matches: Callable[[Raw], bool]
    prefix_pattern: str


class FacetSpec(NamedTuple):
    """Fields of a facet by path; a facet is valid if one of them is present with its type.

    If `is_required` is False, it is valid without any of them, too.
    """

    fields: Mapping[str, JsonType]
    is_required: bool = True


def check_facet(facet: bytes, spec: FacetSpec) -> str | None:
    """Return the error of a facet that is an object; None if it is valid or was deleted."""
    values = {path: _value_at(path, facet) for path in spec.fields}
    if any(spec.fields[path].matches(value) for path, value in values.items()) or is_deleted(facet):
        return None
    mistyped = next((path for path, value in values.items() if value != _NULL), None)
    if mistyped is not None:
        return spec.fields[mistyped].error_code.at(mistyped)
    return FacetErrorCode.MISSING.at(next(iter(values))) if spec.is_required else None


def valid_prefix(facet: str, spec: FacetSpec) -> str | None:
    """Return the prefix of a valid facet that makes every facet with this prefix valid; None if there is none."""
    if check_facet(facet.encode(), spec) is not None:
        return None
    matches = (_prefix_pattern(path, json_type.prefix_pattern).match(facet) for path, json_type in spec.fields.items())
    return next((match[0] for match in matches if match), None)


def _value_at(path: str, facet: bytes) -> Raw:
    value = Raw(facet)
    for step in path.split("."):
        value = (decode_optional(value, _decode_object) or {}).get(step, _NULL)
    return value


@cache
def _prefix_pattern(path: str, value_pattern: str) -> re.Pattern[str]:
    """Compile the pattern: string members such as `_producer` may precede the key, nested values may not."""
    strings = rf"(?:\s*{_SIMPLE_STRING}\s*:\s*{_SIMPLE_STRING}\s*,)*"
    steps = (rf'\{{{strings}\s*"{step}"\s*:\s*' for step in path.split("."))
    return re.compile("".join(steps) + value_pattern)


def _starts_with(first_bytes: bytes) -> Callable[[Raw], bool]:
    return lambda value: bytes(value)[:1] in first_bytes


def _is_timestamp(value: Raw) -> bool:
    return parse_epoch_micros(decode_optional(value, _decode_str)) is not None


_LIST = JsonType(FacetErrorCode.NOT_A_LIST, _starts_with(b"["), r"\[")
_OBJECT = JsonType(FacetErrorCode.NOT_AN_OBJECT, _starts_with(b"{"), r"\{")
_STRING = JsonType(FacetErrorCode.NOT_A_STRING, _starts_with(b'"'), '"')
_TIMESTAMP = JsonType(FacetErrorCode.NOT_A_TIMESTAMP, _is_timestamp, _SIMPLE_STRING)
_NUMBER = JsonType(FacetErrorCode.NOT_A_NUMBER, _starts_with(b"-0123456789"), "[-0-9]")

_TAGS = FacetSpec({"tags": _LIST}, is_required=False)
_OWNERSHIP = FacetSpec({"owners": _LIST}, is_required=False)
_DOCUMENTATION = FacetSpec({"description": _STRING})
_ROW_COUNT = FacetSpec({"rowCount": _NUMBER}, is_required=False)

RUN_FACET_SPECS: Final[Mapping[str, FacetSpec]] = {
    "parent": FacetSpec({"run.runId": _STRING}),
    "nominalTime": FacetSpec({"nominalStartTime": _TIMESTAMP}),
    "errorMessage": FacetSpec({"message": _STRING}),
    "tags": _TAGS,
}
JOB_FACET_SPECS: Final[Mapping[str, FacetSpec]] = {
    "jobType": FacetSpec({"processingType": _STRING, "integration": _STRING, "jobType": _STRING}),
    "sourceCodeLocation": FacetSpec({"url": _STRING, "repoUrl": _STRING, "path": _STRING}),
    "documentation": _DOCUMENTATION,
    "ownership": _OWNERSHIP,
    "tags": _TAGS,
    "lineage": FacetSpec({"entries": _LIST}),
}
DATASET_FACET_SPECS: Final[Mapping[str, FacetSpec]] = {
    "schema": FacetSpec({"fields": _LIST}, is_required=False),
    "symlinks": FacetSpec({"identifiers": _LIST}, is_required=False),
    "lifecycleStateChange": FacetSpec({"lifecycleStateChange": _STRING}),
    "version": FacetSpec({"datasetVersion": _STRING}),
    "columnLineage": FacetSpec({"fields": _OBJECT, "dataset": _LIST}),
    "lineage": FacetSpec({"inputs": _LIST, "fields": _OBJECT}, is_required=False),
    "documentation": _DOCUMENTATION,
    "ownership": _OWNERSHIP,
    "tags": _TAGS,
    "dataQualityMetrics": _ROW_COUNT,
    "columnMetrics": _ROW_COUNT,
    "inputStatistics": _ROW_COUNT,
    "outputStatistics": _ROW_COUNT,
}
