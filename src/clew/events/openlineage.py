"""OpenLineage events: structs, decoding, run states, timestamps."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct, field, structs

from clew.events.decoding import (
    Decode,
    Document,
    RejectedError,
    RejectionReason,
    decode_optional,
    decode_or_salvage,
    salvage_items,
    salvage_object,
    salvage_struct,
)

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

# Facet names of the first notebook format, and the prefixed or standard facets that replaced them.
FACET_ALIASES: Final[dict[str, str]] = {
    "marimoExecution": "marimo_execution",
    "performance": "marimo_performance",
    "columnMetrics": "dataQualityMetrics",
}


class _VersionFacet(Struct, rename="camel"):
    dataset_version: str


# gc=False here and below: these cannot be part of a reference cycle, and need less memory.
class Dataset(Struct, rename="camel", gc=False):
    """An input, an output or the subject of a DatasetEvent."""

    namespace: str
    name: str
    facets: Facets | None = None
    input_facets: Facets | None = None
    output_facets: Facets | None = None


class Job(Struct, gc=False):
    """The job an event is about."""

    namespace: str
    name: str
    facets: Facets | None = None


class Run(Struct, rename="camel", gc=False):
    """The run an event is about."""

    run_id: str
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


class _RunRef(Struct, rename="camel"):
    run_id: str


class _EntityRef(Struct):
    namespace: str
    name: str


class _EventHeader(Struct, rename="camel"):
    """The fields that decide whether an event is accepted."""

    event_time: str
    run: _RunRef | None = None
    job: _EntityRef | None = None
    dataset: _EntityRef | None = None
    schema_url: str | None = field(default=None, name="schemaURL")


_decode_header = msgspec.json.Decoder(_EventHeader).decode
_decode_version = msgspec.json.Decoder(_VersionFacet).decode
_decode_event = msgspec.json.Decoder(Event).decode
_LENIENT_DECODERS: Final[dict[str, Decode]] = {
    "run": partial(salvage_object, Run),
    "job": partial(salvage_object, Job),
    "dataset": partial(salvage_object, Dataset),
    "inputs": partial(salvage_items, Dataset),
    "outputs": partial(salvage_items, Dataset),
}


def decode_openlineage(body: Document) -> Event:
    """Decode an event from UTF-8; RejectedError if it is invalid."""
    event = decode_or_salvage(body, _decode_event, _decode_lenient)
    if event.run is not None and not event.run.run_id:
        event.run = None
    _validate_header(event)
    return event


def validate_openlineage(body: Document) -> None:
    """Reject what `decode_openlineage` rejects, in half the time, by decoding only the header."""
    try:
        header = _decode_header(body)
    except (msgspec.DecodeError, RecursionError):
        decode_openlineage(body)
    else:
        _validate_header(header)


def parse_dataset_version(facets: Facets | None) -> str | None:
    """Return the version in the `version` facet of a dataset."""
    # Called for every dataset of every event, and most have no version.
    if facets is None or "version" not in facets:
        return None
    facet = decode_optional(facets["version"], _decode_version)
    return None if facet is None else facet.dataset_version


def _validate_header(event: Event | _EventHeader) -> None:
    has_run = event.run is not None and event.run.run_id
    if not has_run and event.job is None and event.dataset is None:
        raise RejectedError(RejectionReason.NO_IDENTITY, "no run.runId, and no job or dataset with namespace and name")
    try:
        parse_time(event.event_time)
    except ValueError:
        raise RejectedError(RejectionReason.NO_TIME, f"eventTime {event.event_time[:60]!r} is not a time") from None
    model = _schema_model(event.schema_url or "")
    if model > MAX_SCHEMA_MODEL:
        detail = f"schemaURL has schema version {model}-x-x; this clew reads OpenLineage up to {MAX_SCHEMA_MODEL}-x-x"
        raise RejectedError(RejectionReason.UNKNOWN_SCHEMA, detail)


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
