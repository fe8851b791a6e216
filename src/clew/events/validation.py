"""Strict validation of events against JSON Schemas and the OpenLineage spec, and lint rules for producers."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from msgspec import Raw, Struct

from clew.errors import MissingExtraError, UsageError
from clew.events.decoding import RejectedError, RejectionReason, decode_members, decode_optional, decode_str
from clew.events.facets import is_deleted, parse_epoch_micros
from clew.events.openlineage import FACET_ALIASES
from clew.events.streams import Stream, decode_event

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
        value = decode_members(value).get(step, _NULL)
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
    return parse_epoch_micros(decode_optional(value, decode_str)) is not None


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


LintRule = Literal[
    "facet-prefix",
    "facet-key",
    "facet-name",
    "facet-entity",
    "schema-pointer",
    "schema-url",
    "schema-canonical",
    "run-id",
    "run-start",
    "run-end",
]

# Facet names that a later spec version replaced; producers still send them.
_RENAMED_FACETS: Final = frozenset({"sourceCodeLocationJob", *FACET_ALIASES})
# Branch, tag or commit in the URLs of common repository hosts.
_REVISION = re.compile(
    r"https?://(?:raw\.githubusercontent\.com/[^/]+/[^/]+|[^?#]+/(?:blob|raw|tree|src))/(?P<ref>refs/tags/|refs/heads/)?"
    r"(?P<name>[^/?#]+)/"
)
_COMMIT_OR_VERSION = re.compile(r"[0-9a-f]{7,64}|.*\d+[.-]\d+.*|[vV]?\d+")
_BRANCH = re.compile(r"https?://[^?#]*/(?P<name>main|master|trunk|develop|dev|head|latest)/", re.IGNORECASE)
# Spec: `{prefix}_{name}`; the example `bigQuery_statistics` has parts in camel case.
_FACET_KEY = re.compile(r"[a-z][a-zA-Z0-9]*(?:_[a-z0-9][a-zA-Z0-9]*)+")
# Map of facets in an event -> the entity in the names of facet schemas, and the group of facets in clew's schema.
_ENTITIES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "run/facets": (("Run",), "runFacets"),
    "job/facets": (("Job",), "jobFacets"),
    "dataset/facets": (("Dataset",), "datasetFacets"),
    "dataset/inputFacets": (("InputDataset", "Dataset"), "inputFacets"),
    "dataset/outputFacets": (("OutputDataset", "Dataset"), "outputFacets"),
}
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
    for path, place, name, facet in _facets(event):
        yield from _check_facet_key(path, place, name)
        url = facet.get("_schemaURL") if isinstance(facet, dict) else None
        if isinstance(url, str):
            yield from _check_schema_url(f"{path}/_schemaURL", url)
            yield from _check_schema_pointer(f"{path}/_schemaURL", place, name, url)


@cache
def _standard_places() -> dict[str, list[str]]:
    """Return the places of each standard facet, as the keys of `_ENTITIES`."""
    groups, places = load_schema(SCHEMA_FILES[Stream.OPENLINEAGE])["$defs"], defaultdict(list)
    for place, (_, group) in _ENTITIES.items():
        for name in groups[group]["properties"]:
            if not name.startswith("marimo_"):
                places[name].append(place)
    return places


def _is_custom(name: str) -> bool:
    return name not in _standard_places() and name not in _RENAMED_FACETS


def _check_facet_key(path: str, place: str, name: str) -> Iterator[LintWarning]:
    places = _standard_places().get(name)
    if places and place not in places:
        allowed = " or ".join(f"{other.partition('/')[2]} of a {other.partition('/')[0]}" for other in places)
        yield LintWarning("facet-entity", path, f"The standard facet {name!r} belongs to {allowed}.")
    if not _is_custom(name):
        return
    if "_" not in name:
        message = f"The facet {name!r} is not in the spec. Add your prefix, for example `acme_{name}`."
        yield LintWarning("facet-prefix", path, message)
    elif not _FACET_KEY.fullmatch(name):
        message = f"The facet key {name!r} is not `prefix_name` in camel case, such as `bigQuery_statistics`."
        yield LintWarning("facet-key", path, message)


def _check_schema_pointer(path: str, place: str, name: str, url: str) -> Iterator[LintWarning]:
    """Check that the URL points to a definition, and for a custom facet its name and that it has a version."""
    document, _, pointer = url.partition("#")
    schema_name = pointer.rpartition("/")[2] or document.rpartition("/")[2].removesuffix(".json")
    if not pointer.startswith("/"):
        message = f"The schema URL has no JSON pointer. Append one, for example `#/$defs/{schema_name}`."
        yield LintWarning("schema-pointer", path, message)
    if not _is_custom(name) or "_" not in name:
        return
    has_version = "/refs/tags/" in document or any(map(_COMMIT_OR_VERSION.fullmatch, document.split("/")[3:]))
    if not has_version and not any(_check_schema_url(path, url)):
        message = "The schema URL names no version, so its schema may change. Add a version, a tag or a commit."
        yield LintWarning("schema-url", path, message)
    prefix_and_name = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    expected = [f"{prefix_and_name}{entity}Facet" for entity in _ENTITIES[place][0]]
    if schema_name not in expected:
        message = f"The schema of the facet {name!r} is named {schema_name!r}; the spec names it {expected[0]!r}."
        yield LintWarning("facet-name", path, message)


class CanonicalUrlCheck:
    """Check over many events that each version of a facet schema has one URL."""

    def __init__(self) -> None:
        self._urls: dict[tuple[str, str, str], str] = {}

    def check(self, event: Mapping[str, Any]) -> Iterator[LintWarning]:
        """Yield each schema URL that differs from an earlier one of the same facet and version."""
        for path, place, name, facet in _facets(event):
            url = facet.get("_schemaURL") if isinstance(facet, dict) else None
            if isinstance(url, str):
                version = next(iter(re.findall(r"/v?(\d+(?:[.-]\d+)*|[0-9a-f]{7,64})(?=/)", url)), "")
                first = self._urls.setdefault((place, name, version), url)
                if first != url:
                    message = f"The same version of the schema of {name!r} has another URL in this input: {first}"
                    yield LintWarning("schema-canonical", f"{path}/_schemaURL", message)


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
    if not isinstance(url, str):
        return
    match = _REVISION.match(url)
    if match is not None and match["ref"] != "refs/heads/":
        is_fixed = match["ref"] == "refs/tags/" or _COMMIT_OR_VERSION.fullmatch(match["name"])
        match = None if is_fixed else match
    else:
        match = match or _BRANCH.match(url)
    if match is not None:
        message = f"The schema URL names the branch {match['name']!r}, which may change. Use a tag or a commit."
        yield LintWarning("schema-url", path, message)


def _facets(event: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the path, place, name and value of every facet. The place is one of `_ENTITIES`."""
    for key in ("run", "job", "dataset"):
        yield from _facets_of(f"/{key}", key, event.get(key))
    for key in ("inputs", "outputs"):
        datasets = event.get(key)
        for number, dataset in enumerate(datasets if isinstance(datasets, list) else ()):
            yield from _facets_of(f"/{key}/{number}", "dataset", dataset)


def _facets_of(path: str, owner: str, entity: Any) -> Iterator[tuple[str, str, str, Any]]:
    for kind in ("facets", "inputFacets", "outputFacets") if owner == "dataset" else ("facets",):
        facets = entity.get(kind) if isinstance(entity, dict) else None
        for name, facet in (facets if isinstance(facets, dict) else {}).items():
            yield f"{path}/{kind}/{name}", f"{owner}/{kind}", name, facet


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
def load_schema(file_name: str) -> dict[str, Any]:
    """Load a JSON Schema of the package."""
    text = files("clew.events").joinpath("schemas", file_name).read_text(encoding="utf-8")
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
    return build_validator(load_schema(SCHEMA_FILES[stream]))


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
        """Return clew's schema of events and standard facets."""
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
        # jsonschema_rs retrieves only schemas that these rules refer to themselves.
        all_schemas = {name: {"$ref": name} for name in self._schemas}
        return {"allOf": [{"$ref": f"{self._core}#/$defs/{kind}"}, *self._facet_rules()], "$defs": all_schemas}

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
    # The schema of notebook events also describes the standard facets.
    names = (_CORE_SCHEMA, SCHEMA_FILES[Stream.OPENLINEAGE])
    return OpenLineageSpec({name: load_schema(name) for name in names}, _CORE_SCHEMA)


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
# Producer of the first notebook format. It is not a URI, and its facets need no _producer: the spec does not apply.
_FIRST_PRODUCER: Final = "marimo-lineage-tracker"


class Issue(Struct, frozen=True):
    """An error or a lint warning with its position: `line` is the first line of the event, or that of a syntax error.

    Warnings about a whole run have no line.
    """

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
        self._urls = CanonicalUrlCheck()

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
            details = list(_locate_json_errors(body, line)) if error.reason is RejectionReason.NOT_JSON else []
            for place, detail in details or [(line, error.detail)]:
                yield Issue("error", f"rejected:{error.reason}", file, place, "/", _truncate(detail))
        if not isinstance(event, dict):
            return
        is_first_format = event.get("producer") == _FIRST_PRODUCER
        # Events of notebook streams have a session id; other OpenLineage events need none.
        if stream != Stream.OPENLINEAGE or "session_id" in event or is_first_format:
            for path, message in schema_violations(event, stream):
                yield Issue("error", f"schema:{stream}", file, line, path, _truncate(message))
        if stream == Stream.OPENLINEAGE:
            yield from self._openlineage_issues(file, line, event, has_spec=not is_first_format)

    def _openlineage_issues(self, file: str, line: int, event: dict[str, Any], *, has_spec: bool) -> Iterator[Issue]:
        for path, message in self._spec.violations(event) if has_spec else ():
            yield Issue("error", "spec", file, line, path, _truncate(message))
        for rule, path, message in (*lint_event(event), *self._urls.check(event)):
            yield Issue("warning", rule, file, line, path, _truncate(message))
        self._runs.add(event)


def _decode_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _locate_json_errors(body: bytes, first_line: int) -> Iterator[tuple[int, str]]:
    """Yield the line and message of each trailing comma, and of the first other syntax error."""
    text = body.decode(errors="replace")
    while True:
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            before = text[: error.pos].rstrip()
            # Python 3.13 reports the comma, older versions the bracket after it.
            comma = error.pos if text[error.pos : error.pos + 1] == "," else len(before) - 1
            is_trailing = text[comma : comma + 1] == "," and text[comma + 1 :].lstrip()[:1] in ("}", "]")
            at = comma if is_trailing else error.pos
            line, column = first_line + text.count("\n", 0, at), at - text.rfind("\n", 0, at)
            problem = "trailing comma; remove it" if is_trailing else error.msg
            yield line, f"line {line}, column {column}: {problem}"
            if not is_trailing:
                return
            text = f"{text[:comma]} {text[comma + 1 :]}"
        except (ValueError, RecursionError):
            return
        else:
            return


def _truncate(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE_LENGTH else f"{message[: _MAX_MESSAGE_LENGTH - 1]}…"
