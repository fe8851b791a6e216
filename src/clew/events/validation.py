"""Strict validation of events against JSON Schemas and the OpenLineage spec, and lint rules for producers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from clew.errors import MissingExtraError, UsageError
from clew.events.decoding import RejectedError, decode_optional
from clew.events.facets import is_deleted, parse_epoch_micros
from clew.events.openlineage import FACET_ALIASES
from clew.events.streams import Stream, decode_event

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


LintRule = Literal["facet-prefix", "schema-url", "run-id", "run-start", "run-end"]

_STANDARD_FACETS: Final = frozenset(
    """catalog columnLineage dataQualityAssertions dataQualityMetrics dataSource datasetType documentation
    environmentVariables errorMessage executionParameters externalQuery extractionError hierarchy inputStatistics
    jobDependencies jobType lifecycleStateChange lineage nominalTime outputStatistics ownership parent processing_engine
    schema sourceCode sourceCodeLocation sql storage subset symlinks tags test version""".split()
)
# Facet names that a later spec version replaced; producers still send them.
_RENAMED_FACETS: Final = frozenset({"parentRun", "sourceCodeLocationJob", *FACET_ALIASES})
# Branch, tag or commit in the URLs of common repository hosts.
_REVISION = re.compile(
    r"https?://(?:raw\.githubusercontent\.com/[^/]+/[^/]+|[^?#]+/(?:blob|raw|tree|src))/(?P<ref>refs/tags/|refs/heads/)?"
    r"(?P<name>[^/?#]+)/"
)
_COMMIT_OR_VERSION = re.compile(r"[0-9a-f]{7,64}|.*\d+[.-]\d+.*|[vV]\d+")
_TERMINAL_EVENT_TYPES: Final = frozenset({"COMPLETE", "FAIL", "ABORT"})


class LintWarning(NamedTuple):
    """A violated lint rule, with its JSON path or run id."""

    rule: LintRule
    path: str
    message: str


def lint_event(event: Mapping[str, Any]) -> Iterator[LintWarning]:
    """Yield the lint warnings of one event."""
    yield from _check_run_id(event)
    yield from _check_schema_url("/schemaURL", event.get("schemaURL"))
    for path, name, facet in _facets(event):
        if name not in _STANDARD_FACETS and name not in _RENAMED_FACETS and "_" not in name:
            message = f"The facet {name!r} is not in the spec. Add your prefix, for example `acme_{name}`."
            yield LintWarning("facet-prefix", path, message)
        if isinstance(facet, dict):
            yield from _check_schema_url(f"{path}/_schemaURL", facet.get("_schemaURL"))


class RunPairingCheck:
    """Check over many events that each run has a START and a terminal event."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Record the event type of the event's run."""
        run, kind = _run_id_of(event), event.get("eventType")
        if run is not None:
            self._seen.setdefault(run, set()).add(kind if isinstance(kind, str) else "")

    def warnings(self) -> Iterator[LintWarning]:
        """Yield runs without a START or a terminal event, ordered by first event."""
        for run, kinds in self._seen.items():
            if "START" not in kinds:
                yield LintWarning("run-start", run, "The run has no START event: its start time is unknown.")
            if not kinds & _TERMINAL_EVENT_TYPES:
                message = "The run has no COMPLETE, FAIL or ABORT event: it is shown as running forever."
                yield LintWarning("run-end", run, message)


def _run_id_of(event: Mapping[str, Any]) -> str | None:
    run = event.get("run")
    run_id = run.get("runId") if isinstance(run, dict) else None
    return run_id if isinstance(run_id, str) else None


def _check_run_id(event: Mapping[str, Any]) -> Iterator[LintWarning]:
    run = _run_id_of(event)
    if run is None:
        return
    try:
        UUID(run)
    except ValueError:
        message = f"The run id {run[:60]!r} is not a UUID and may not be unique. Generate a new UUID for each run."
        yield LintWarning("run-id", "/run/runId", message)


def _check_schema_url(path: str, url: object) -> Iterator[LintWarning]:
    match = _REVISION.match(url) if isinstance(url, str) else None
    if match is None or match["ref"] == "refs/tags/":
        return
    if match["ref"] or not _COMMIT_OR_VERSION.fullmatch(match["name"]):
        message = f"The schema URL names the branch {match['name']!r}, which may change. Use a tag or a commit."
        yield LintWarning("schema-url", path, message)


def _facets(event: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield the path, name and value of every facet."""
    for key in ("run", "job", "dataset"):
        yield from _facets_of(f"/{key}", event.get(key))
    for key in ("inputs", "outputs"):
        datasets = event.get(key)
        for number, dataset in enumerate(datasets if isinstance(datasets, list) else ()):
            yield from _facets_of(f"/{key}/{number}", dataset)


def _facets_of(path: str, entity: Any) -> Iterator[tuple[str, str, Any]]:
    for kind in ("facets", "inputFacets", "outputFacets"):
        facets = entity.get(kind) if isinstance(entity, dict) else None
        for name, facet in (facets if isinstance(facets, dict) else {}).items():
            yield f"{path}/{kind}/{name}", name, facet


SCHEMA_FILES: dict[Stream, str] = {
    Stream.RUNTIME: "runtime_events_schema.json",
    Stream.OPENLINEAGE: "openlineage_events_schema.json",
    Stream.DATAFRAME: "dataframe_lineage_schema.json",
}


class SchemaViolation(NamedTuple):
    """A violation of a schema, with the JSON path of the value."""

    path: str
    message: str


@cache
def load_schema(stream: Stream) -> dict[str, Any]:
    """Load the JSON Schema of a stream."""
    text = files("clew.events").joinpath("schemas", SCHEMA_FILES[stream]).read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def schema_violations(event: Any, stream: Stream) -> list[SchemaViolation]:
    """Return the schema violations of a decoded event."""
    return to_violations(_validator(stream).iter_errors(event))


def to_violations(errors: Iterable[Any]) -> list[SchemaViolation]:
    """Convert errors of jsonschema_rs to distinct violations."""
    return list(dict.fromkeys(violation for error in errors for violation in _flatten_error(error)))


def build_validator(rules: dict[str, Any], retrieve: Callable[[str], dict[str, Any]] | None = None) -> Any:
    """Build a validator of a JSON Schema; `retrieve` returns the schemas that it refers to."""
    try:
        import jsonschema_rs
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("validate", "jsonschema_rs") from error
    return jsonschema_rs.Draft202012Validator(rules, validate_formats=True, retriever=retrieve)


def detect_stream(event: Any) -> Stream | None:
    """Detect the stream of an event by its fields."""
    if not isinstance(event, dict):
        return None
    if "eventTime" in event:
        return Stream.OPENLINEAGE
    kind = event.get("event_type")
    if kind == "dataframe_lineage":
        return Stream.DATAFRAME
    return Stream.RUNTIME if isinstance(kind, str) and kind.startswith("cell_execution") else None


@cache
def _validator(stream: Stream) -> Any:
    return build_validator(load_schema(stream))


def _flatten_error(error: Any) -> Iterator[SchemaViolation]:
    """Yield an error as a violation; if there was only one alternative, yield the errors of that."""
    context = getattr(error.kind, "context", None)
    if context is not None and len(context) == 1:
        for inner in context[0]:
            yield from _flatten_error(inner)
    else:
        yield SchemaViolation("/" + "/".join(map(str, error.instance_path)), error.message)


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


_MAX_MESSAGE_LENGTH = 200


class Issue(Struct, frozen=True):
    """An error or a lint warning with its position: `line` counts events. Warnings about a whole run have no line."""

    level: Literal["error", "warning"]
    rule: str
    file: str | None
    line: int | None
    path: str
    message: str


class EventValidator:
    """Validate events one after the other."""

    def __init__(self, spec: OpenLineageSpec) -> None:
        self.events: Counter[str] = Counter()
        self.valid = 0
        self._spec = spec
        self._runs = RunPairingCheck()

    def validate(self, file: str, line: int, body: bytes) -> Iterator[Issue]:
        """Yield the issues of one event."""
        issues = list(self._issues(file, line, body))
        self.valid += not any(issue.level == "error" for issue in issues)
        yield from issues

    def check_runs(self) -> Iterator[Issue]:
        """Yield the warnings about runs; call it after all events."""
        for rule, run, message in self._runs.warnings():
            yield Issue("warning", rule, None, None, run, message)

    def _issues(self, file: str, line: int, body: bytes) -> Iterator[Issue]:
        event = _decode_json(body)
        stream = detect_stream(event) or Stream.OPENLINEAGE
        self.events[stream] += 1
        try:
            decode_event(stream, body)
        except RejectedError as error:
            yield Issue("error", f"rejected:{error.reason}", file, line, "/", _truncate(error.detail))
        if not isinstance(event, dict):
            return
        # Events of notebook streams have a session id; other OpenLineage events need none.
        if stream != Stream.OPENLINEAGE or "session_id" in event:
            for path, message in schema_violations(event, stream):
                yield Issue("error", f"schema:{stream}", file, line, path, _truncate(message))
        if stream == Stream.OPENLINEAGE:
            yield from self._openlineage_issues(file, line, event)

    def _openlineage_issues(self, file: str, line: int, event: dict[str, Any]) -> Iterator[Issue]:
        for path, message in self._spec.violations(event):
            yield Issue("error", "spec", file, line, path, _truncate(message))
        for rule, path, message in lint_event(event):
            yield Issue("warning", rule, file, line, path, message)
        self._runs.add(event)


def _decode_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE_LENGTH else f"{message[: _MAX_MESSAGE_LENGTH - 1]}…"
