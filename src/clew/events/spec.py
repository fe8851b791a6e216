"""Validation against the OpenLineage JSON Schema: the bundled core, or the whole spec from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from clew.errors import UsageError
from clew.events.validation import SchemaViolation, build_validator, to_violations

_CORE = "OpenLineage.json"
_CORE_SCHEMA = "openlineage_core_schema.json"
# Paths of facets in an event, by the base type of the facet in the spec.
_FACET_PATHS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "RunFacet": (("run", "facets"),),
    "JobFacet": (("job", "facets"),),
    "DatasetFacet": (("dataset", "facets"), ("inputs", "*", "facets"), ("outputs", "*", "facets")),
    "InputDatasetFacet": (("inputs", "*", "inputFacets"),),
    "OutputDatasetFacet": (("outputs", "*", "outputFacets"),),
}


class OpenLineageSpec:
    """JSON Schemas of OpenLineage."""

    def __init__(self, schemas: Mapping[str, dict[str, Any]], core: str) -> None:
        """Create from `schemas`, keyed by the last path segment of the URLs that refer to them."""
        self._schemas = schemas
        self._core = core
        self._validators: dict[str, Any] = {}

    @classmethod
    def core(cls) -> OpenLineageSpec:
        """Return the schema of events, without the schemas of the standard facets."""
        return _core()

    @classmethod
    def from_folder(cls, folder: Path) -> OpenLineageSpec:
        """Read the official spec from a folder with `OpenLineage.json` and facet schemas at any depth."""
        schemas = {path.name: _read_schema(path) for path in sorted(folder.rglob("*.json"))}
        if not isinstance(schemas.get(_CORE, {}).get("$id"), str):
            hint = "Pass the folder `spec` of an OpenLineage checkout, or a copy of it."
            raise UsageError(f"There is no {_CORE} in {folder}.", hint=hint)
        return cls(schemas, schemas[_CORE]["$id"])

    def violations(self, event: Any) -> list[SchemaViolation]:
        """Return the schema violations of a decoded event."""
        kind = _event_kind(event)
        if kind not in self._validators:
            self._validators[kind] = build_validator(self._rules(kind), self._retrieve)
        return to_violations(self._validators[kind].iter_errors(event))

    def _rules(self, kind: str) -> dict[str, Any]:
        return {"allOf": [{"$ref": f"{self._core}#/$defs/{kind}"}, *self._facet_rules()]}

    def _facet_rules(self) -> Iterator[dict[str, Any]]:
        """Yield a rule for each facet at each of its paths; a facet schema describes the map that contains it."""
        for name, schema in self._schemas.items():
            for key, part in schema.get("properties", {}).items():
                rule = {"properties": {key: {"$ref": f"{name}#/properties/{key}"}}}
                for kind in sorted(set(_base_facets(part, schema))):
                    yield from (_nest_rule(path, rule) for path in _FACET_PATHS.get(kind, ()))

    def _retrieve(self, url: str) -> dict[str, Any]:
        name = url.partition("#")[0].rsplit("/", 1)[-1]
        if name not in self._schemas:
            raise KeyError(f"{url} is not in the spec folder")
        return self._schemas[name]


@cache
def _core() -> OpenLineageSpec:
    text = files("clew.events").joinpath("schemas", _CORE_SCHEMA).read_text(encoding="utf-8")
    return OpenLineageSpec({_CORE_SCHEMA: json.loads(text)}, _CORE_SCHEMA)


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a JSON Schema: {error}.", hint="Fix or remove it.") from error
    return loaded if isinstance(loaded, dict) else {}


def _event_kind(event: Any) -> str:
    """Return the event type, which follows from the fields that are present."""
    if not isinstance(event, dict) or event.get("run") is not None:
        return "RunEvent"
    if event.get("job") is not None:
        return "JobEvent"
    return "DatasetEvent" if "dataset" in event else "RunEvent"


def _base_facets(part: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Yield the base types of a facet schema."""
    reference = part.get("$ref", "")
    if reference.startswith("#/$defs/"):
        yield from _base_facets(schema["$defs"][reference.removeprefix("#/$defs/")], schema)
    elif f"{_CORE}#/$defs/" in reference:
        yield reference.rsplit("/", 1)[-1]
    for keyword in ("allOf", "anyOf", "oneOf"):
        for other in part.get(keyword, ()):
            yield from _base_facets(other, schema)


def _nest_rule(path: tuple[str, ...], rule: dict[str, Any]) -> dict[str, Any]:
    """Wrap a rule so that it applies to the values at a path, if there are any."""
    for step in reversed(path):
        rule = {"items": rule} if step == "*" else {"properties": {step: rule}}
    return rule
