"""OpenLineage events: structs, decoding, run states, timestamps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from clew.events.decoding import (
    Decode,
    Document,
    RejectedError,
    RejectionReason,
    StructT,
    decode_list,
    decode_members,
    decode_optional,
    decode_or_salvage,
    decode_str,
    is_name,
    require_name,
    salvage_object,
    salvage_struct,
)
from clew.events.ids import ITEM_SEPARATOR, NAME_SEPARATOR, PART_SEPARATOR

# Java prints `…Z[Europe/London]`; RFC 3339 allows lower case, and some producers write the zone twice (`+00:00Z`).
_ZONE_NAME = re.compile(r"\[[^\]]*\]$")
_REPEATED_ZONE = re.compile(r"(?<=[+-]\d\d:\d\d|.[+-]\d\d\d\d)Z$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# The time of an event is parsed once per table that it adds rows to.
@lru_cache(256)
def parse_time(text: str) -> datetime:
    """Parse a timestamp to UTC; without a zone it is UTC. ValueError if it is invalid."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        timestamp = datetime.fromisoformat(_normalize_iso(text))
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=UTC)
    try:
        return timestamp.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from error


def to_epoch_micros(timestamp: datetime) -> int:
    """Convert to exact microseconds since 1970."""
    return (timestamp - _EPOCH) // _MICROSECOND


def _normalize_iso(text: str) -> str:
    return _REPEATED_ZONE.sub("", _ZONE_NAME.sub("", text.strip()).upper())


# A terminal state is sticky: a lower rank never replaces a higher one, whatever the order of arrival.
STATE_RANKS: Final[dict[str, int]] = {"START": 1, "RUNNING": 2, "COMPLETE": 3, "FAIL": 3, "ABORT": 3}
TERMINAL_RANK: Final = 3
RUN_STATES: Final[dict[str, str]] = {
    "START": "RUNNING",
    "RUNNING": "RUNNING",
    "COMPLETE": "COMPLETED",
    "FAIL": "FAILED",
    "ABORT": "ABORTED",
}
DEFAULT_STATE: Final = "NEW"


Facets = dict[str, Raw]
EventKind = Literal["RUN", "JOB", "DATASET"]

# SchemaVer: a new MODEL is a breaking change.
MAX_SCHEMA_MODEL: Final = 2
# At most nine digits: `int` raises for numbers with thousands of digits.
_MODEL = re.compile(r"/spec/0*(\d{1,9})\d*-\d+-\d+/")

# Facet names of the first notebook format and of early OpenLineage clients, and the facets that replaced them.
FACET_ALIASES: Final[dict[str, str]] = {
    "parentRun": "parent",
    "marimoExecution": "marimo_execution",
    "performance": "marimo_performance",
    "columnMetrics": "dataQualityMetrics",
}


# Dataset whose facets are the annotations of users.
ANNOTATIONS_NAMESPACE: Final = "clew"
ANNOTATIONS_NAME: Final = "notes"
_ANNOTATIONS = ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME


Identifier = Annotated[str, Meta(min_length=1)]


class _VersionFacet(Struct, rename="camel"):
    dataset_version: str


# gc=False here and below: these cannot be part of a reference cycle, and need less memory.
class Dataset(Struct, rename="camel", gc=False):
    """An input, an output or the subject of a DatasetEvent."""

    namespace: Identifier
    name: Identifier
    facets: Facets | None = None
    input_facets: Facets | None = None
    output_facets: Facets | None = None


class Job(Struct, gc=False):
    """The job an event is about."""

    namespace: Identifier
    name: Identifier
    facets: Facets | None = None


class Run(Struct, rename="camel", gc=False):
    """The run an event is about."""

    run_id: Identifier
    facets: Facets | None = None


class Event(Struct, rename="camel", gc=False):
    """A RunEvent, JobEvent or DatasetEvent, distinguished by its fields."""

    event_time: str
    event_type: str | None = None
    run: Run | None = None
    job: Job | None = None
    dataset: Dataset | None = None
    inputs: list[Dataset] | None = None
    outputs: list[Dataset] | None = None
    producer: str | None = None
    schema_url: str | None = field(default=None, name="schemaURL")
    session_id: str | None = field(default=None, name="session_id")
    execution_id: str | None = field(default=None, name="execution_id")

    @property
    def kind(self) -> EventKind:
        """RUN, JOB or DATASET."""
        if self.run is not None:
            return "RUN"
        return "DATASET" if self.job is None else "JOB"

    @property
    def time(self) -> datetime:
        """`eventTime`, in UTC."""
        return parse_time(self.event_time)


class _RunRef(Struct, rename="camel", gc=False):
    run_id: Identifier


class _EntityRef(Struct, gc=False):
    namespace: Identifier
    name: Identifier


class _EventHeader(Struct, rename="camel", gc=False):
    """The fields that decide whether an event is accepted."""

    event_time: str
    event_type: str | None = None
    run: _RunRef | None = None
    job: _EntityRef | None = None
    dataset: _EntityRef | None = None
    inputs: list[_EntityRef] | None = None
    outputs: list[_EntityRef] | None = None
    schema_url: str | None = field(default=None, name="schemaURL")


def _salvage_entity(kind: type[StructT], path: str, raw: Raw) -> StructT | None:
    """Decode the valid members of a run, job or dataset. Raise RejectedError if it is not identified."""
    entity = salvage_object(kind, raw)
    if entity is None and bytes(raw) != b"null":
        members = decode_members(raw)
        for name in (info.encode_name for info in structs.fields(kind) if info.required):
            text = decode_optional(members.get(name), decode_str)
            if text is None:
                raise RejectedError(RejectionReason.NO_IDENTITY, f"{path}.{name} is missing or not a string")
            require_name(f"{path}.{name}", text)
    return entity


def _salvage_entities(path: str, raw: Raw) -> list[Dataset]:
    items = (_salvage_entity(Dataset, f"{path}[{number}]", item) for number, item in enumerate(decode_list(raw)))
    return [item for item in items if item is not None]


_decode_header = msgspec.json.Decoder(_EventHeader).decode
_decode_version = msgspec.json.Decoder(_VersionFacet).decode
_decode_event = msgspec.json.Decoder(Event).decode
_LENIENT_DECODERS: Final[dict[str, Decode]] = {
    "run": partial(_salvage_entity, Run, "run"),
    "job": partial(_salvage_entity, Job, "job"),
    "dataset": partial(_salvage_entity, Dataset, "dataset"),
    "inputs": partial(_salvage_entities, "inputs"),
    "outputs": partial(_salvage_entities, "outputs"),
}


def decode_openlineage(body: Document, *, allows_reserved: bool = True) -> Event:
    """Decode an event from UTF-8; RejectedError if it is invalid. Received events may not have reserved names."""
    event = decode_or_salvage(body, _decode_event, _decode_lenient)
    if not allows_reserved:
        # First: an event that is stored as invalid may be accepted later.
        _reject_reserved_names(event)
    _validate_header(event)
    return event


def validate_openlineage(body: Document) -> None:
    """Reject what `decode_openlineage` rejects, in half the time, by decoding only the header; and reserved names."""
    try:
        header = _decode_header(body)
    except (msgspec.DecodeError, RecursionError):
        decode_openlineage(body, allows_reserved=False)
    else:
        _reject_reserved_names(header)
        _validate_header(header)


def _reject_reserved_names(event: Event | _EventHeader) -> None:
    """Reject an event with the dataset of annotations, which only the API writes."""
    datasets = [event.dataset, *(event.inputs or ()), *(event.outputs or ())]
    if any(item is not None and (item.namespace, item.name) == _ANNOTATIONS for item in datasets):
        detail = f"the dataset {ANNOTATIONS_NAME!r} of {ANNOTATIONS_NAMESPACE!r} is for tags and deletions of the API"
        raise RejectedError(RejectionReason.RESERVED_NAME, detail)


def parse_dataset_version(facets: Facets | None) -> str | None:
    """Return the version in the `version` facet of a dataset."""
    # Called for every dataset of every event, and most have no version.
    if facets is None or "version" not in facets:
        return None
    facet = decode_optional(facets["version"], _decode_version)
    return facet.dataset_version if facet is not None and is_name(facet.dataset_version) else None


def _validate_header(event: Event | _EventHeader) -> None:
    if event.job is None and (event.run is not None or event.dataset is None):
        detail = "no job with namespace and name" if event.run is not None else "no run, job or dataset"
        raise RejectedError(RejectionReason.NO_IDENTITY, detail)
    schema_url = event.schema_url or ""
    if event.run is None and event.dataset is None and _is_run_event(event.event_type, schema_url):
        raise RejectedError(RejectionReason.NO_IDENTITY, "a RunEvent without run.runId")
    _validate_names(event)
    try:
        parse_time(event.event_time)
    except ValueError:
        raise RejectedError(RejectionReason.NO_TIME, f"eventTime {event.event_time[:60]!r} is not a time") from None
    model = _schema_model(schema_url)
    if model > MAX_SCHEMA_MODEL:
        detail = f"schemaURL has schema version {model}-x-x; this clew reads OpenLineage up to {MAX_SCHEMA_MODEL}-x-x"
        raise RejectedError(RejectionReason.UNKNOWN_SCHEMA, detail)


def _is_run_event(event_type: str | None, schema_url: str) -> bool:
    """Return whether an event without a run should have one. Spec: the schema URL names the kind of an event."""
    return schema_url.endswith("/RunEvent") or (
        event_type is not None and not schema_url.endswith(("/JobEvent", "/DatasetEvent"))
    )


def _validate_names(event: Event | _EventHeader) -> None:
    """Reject separators in names; that names are not empty is checked by decoding."""
    # All names at once, which takes a third of the time.
    job, dataset = event.job, event.dataset
    text = "" if job is None else job.namespace + job.name
    if event.run is not None:
        text += event.run.run_id
    if dataset is not None:
        text += dataset.namespace + dataset.name
    for item in event.inputs or ():
        text += item.namespace + item.name
    for item in event.outputs or ():
        text += item.namespace + item.name
    if PART_SEPARATOR in text or ITEM_SEPARATOR in text or NAME_SEPARATOR in text:
        for path, name in _names(event):
            require_name(path, name)


def _names(event: Event | _EventHeader) -> Iterator[tuple[str, str]]:
    """Yield the identifiers of an event with their paths."""
    if event.run is not None:
        yield "run.runId", event.run.run_id
    entities: dict[str, Dataset | Job | _EntityRef | None] = {"job": event.job, "dataset": event.dataset}
    for key, datasets in (("inputs", event.inputs), ("outputs", event.outputs)):
        for number, dataset in enumerate(datasets or ()):
            entities[f"{key}[{number}]"] = cast("Dataset | _EntityRef", dataset)
    for path, entity in entities.items():
        if entity is not None:
            yield f"{path}.namespace", entity.namespace
            yield f"{path}.name", entity.name


@lru_cache
def _schema_model(schema_url: str) -> int:
    match = _MODEL.search(schema_url)
    return 0 if match is None else int(match[1])


def _decode_lenient(members: Facets) -> Event:
    """Decode the valid fields of an event that violates the schema, as 39 % of public events do."""
    event = salvage_struct(Event, members, _LENIENT_DECODERS)
    if event is None:
        raise RejectedError(RejectionReason.NO_TIME, "eventTime is missing or not a string")
    return event


def without_facets(event: Event) -> Event:
    """Return the event without facets, except the `version` facets that identify its datasets."""
    return structs.replace(
        event,
        run=event.run and structs.replace(event.run, facets=None),
        job=event.job and structs.replace(event.job, facets=None),
        dataset=event.dataset and _dataset_without_facets(event.dataset),
        inputs=[_dataset_without_facets(dataset) for dataset in event.inputs or ()],
        outputs=[_dataset_without_facets(dataset) for dataset in event.outputs or ()],
    )


def _dataset_without_facets(dataset: Dataset) -> Dataset:
    return structs.replace(dataset, facets=_version_facet_only(dataset.facets), input_facets=None, output_facets=None)


def _version_facet_only(facets: Facets | None) -> Facets | None:
    return {"version": facets["version"]} if facets and "version" in facets else None
