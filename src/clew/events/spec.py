"""What OpenLineage asks of an event: its core, which clew knows, or its whole spec, from a folder of its schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from clew.errors import UsageError
from clew.events.validation import Fault, fault_list, validator_of

_CORE = "OpenLineage.json"
_CORE_SCHEMA = "openlineage_core_schema.json"
# Where facets stand in an event, by the kind of facet that the spec lets stand there.
_PLACES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "RunFacet": (("run", "facets"),),
    "JobFacet": (("job", "facets"),),
    "DatasetFacet": (("dataset", "facets"), ("inputs", "*", "facets"), ("outputs", "*", "facets")),
    "InputDatasetFacet": (("inputs", "*", "inputFacets"),),
    "OutputDatasetFacet": (("outputs", "*", "outputFacets"),),
}


class Spec:
    """Rules that events are held against."""

    def __init__(self, schemas: Mapping[str, dict[str, Any]], core: str) -> None:
        """`schemas` are found by the last part of the address that others refer to them by."""
        self._schemas = schemas
        self._core = core
        self._validators: dict[str, Any] = {}

    @classmethod
    def core(cls) -> Spec:
        """The rules that hold for every event; what standard facets must hold is not among them."""
        return _core()

    @classmethod
    def read(cls, folder: Path) -> Spec:
        """The official spec, from a folder with `OpenLineage.json` and the schemas of facets, however deep."""
        found = {path.name: _document(path) for path in sorted(folder.rglob("*.json"))}
        if not isinstance(found.get(_CORE, {}).get("$id"), str):
            hint = "Name the folder `spec` of a checkout of OpenLineage, or a copy of it."
            raise UsageError(f"There is no {_CORE} in {folder}.", hint=hint)
        return cls(found, found[_CORE]["$id"])

    def faults(self, event: Any) -> list[Fault]:
        """Everything wrong with a decoded event; empty if it is valid."""
        kind = _kind(event)
        if kind not in self._validators:
            self._validators[kind] = validator_of(self._rules(kind), self._found)
        return fault_list(self._validators[kind].iter_errors(event))

    def _rules(self, kind: str) -> dict[str, Any]:
        return {"allOf": [{"$ref": f"{self._core}#/$defs/{kind}"}, *self._facet_rules()]}

    def _facet_rules(self) -> Iterator[dict[str, Any]]:
        """A rule for each facet at each of its places. Its schema is of the map that it stands in."""
        for name, schema in self._schemas.items():
            for key, part in schema.get("properties", {}).items():
                rule = {"properties": {key: {"$ref": f"{name}#/properties/{key}"}}}
                for kind in sorted(set(_bases(part, schema))):
                    yield from (_at(place, rule) for place in _PLACES.get(kind, ()))

    def _found(self, address: str) -> dict[str, Any]:
        name = address.partition("#")[0].rsplit("/", 1)[-1]
        if name not in self._schemas:
            raise KeyError(f"{address} is not in the folder of the spec")
        return self._schemas[name]


@cache
def _core() -> Spec:
    text = files("clew.events").joinpath("schemas", _CORE_SCHEMA).read_text(encoding="utf-8")
    return Spec({_CORE_SCHEMA: json.loads(text)}, _CORE_SCHEMA)


def _document(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError) as fault:
        raise UsageError(f"{path} is no JSON Schema: {fault}.", hint="Mend or remove it.") from fault
    return loaded if isinstance(loaded, dict) else {}


def _kind(event: Any) -> str:
    """There is no type field: what is there tells."""
    if not isinstance(event, dict) or event.get("run") is not None:
        return "RunEvent"
    if event.get("job") is not None:
        return "JobEvent"
    return "DatasetEvent" if "dataset" in event else "RunEvent"


def _bases(part: Any, schema: dict[str, Any]) -> Iterator[str]:
    """The kinds of facet that a facet is derived from."""
    reference = part.get("$ref", "")
    if reference.startswith("#/$defs/"):
        yield from _bases(schema["$defs"][reference.removeprefix("#/$defs/")], schema)
    elif f"{_CORE}#/$defs/" in reference:
        yield reference.rsplit("/", 1)[-1]
    for word in ("allOf", "anyOf", "oneOf"):
        for other in part.get(word, ()):
            yield from _bases(other, schema)


def _at(place: tuple[str, ...], rule: dict[str, Any]) -> dict[str, Any]:
    """A rule for what stands at a place of an event, where anything does."""
    for step in reversed(place):
        rule = {"items": rule} if step == "*" else {"properties": {step: rule}}
    return rule
