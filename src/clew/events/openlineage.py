"""OpenLineage events, opened just far enough: identities are read, facets stay the bytes they came as."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct, field

from clew.events.documents import Document, opened, part
from clew.events.rejection import Reason, RejectedError
from clew.events.timestamps import parse_time

Facets = dict[str, Raw]
Kind = Literal["RUN", "JOB", "DATASET"]

# SchemaVer: a new MODEL is a breaking change, so what it says cannot be trusted to mean what we read.
NEWEST_MODEL: Final = 2
# The first digits say enough: `int` refuses a number of thousands of them.
_MODEL = re.compile(r"/spec/0*(\d{1,9})\d*-\d+-\d+/")

# The first notebook format wrote these keys; they mean the prefixed and the standard facets.
FACET_ALIASES: Final[dict[str, str]] = {
    "marimoExecution": "marimo_execution",
    "performance": "marimo_performance",
    "columnMetrics": "dataQualityMetrics",
}


class _VersionFacet(Struct, rename="camel"):
    dataset_version: str


# Here and below: none can hold itself, so the garbage collector need not know of them, and each takes less memory.
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
    """A RunEvent, JobEvent or DatasetEvent: there is no type field, the shape tells."""

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
    def kind(self) -> Kind:
        """RUN, JOB or DATASET."""
        if self.run is not None:
            return "RUN"
        return "DATASET" if self.job is None else "JOB"

    @property
    def time(self) -> datetime:
        """`eventTime`, in UTC."""
        return parse_time(self.event_time)


class _SeenRun(Struct, rename="camel"):
    run_id: str


class _Seen(Struct):
    namespace: str
    name: str


class _Glance(Struct, rename="camel"):
    """As much of an event as tells whether it can be stored."""

    event_time: str
    run: _SeenRun | None = None
    job: _Seen | None = None
    dataset: _Seen | None = None
    schema_url: str | None = field(default=None, name="schemaURL")


_decode_glance = msgspec.json.Decoder(_Glance).decode
_decode_version = msgspec.json.Decoder(_VersionFacet).decode
_decode_event = msgspec.json.Decoder(Event).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


def decode(body: Document) -> Event:
    """Open an event that is text; RejectedError for what can never be stored as one."""
    event = opened(body, _decode_event, _salvage)
    if event.run is not None and not event.run.run_id:
        event.run = None
    _require_sound(event)
    return event


def require_event(body: Document) -> None:
    """Reject what `decode` rejects, in half the time: all of a document is checked, and little of it kept."""
    try:
        seen = _decode_glance(body)
    except (msgspec.DecodeError, RecursionError):
        decode(body)
    else:
        _require_sound(seen)


def version_of(facets: Facets | None) -> str | None:
    """What the `version` facet of a dataset says."""
    # Asked of every dataset of every event, and most have none.
    if facets is None or "version" not in facets:
        return None
    facet = part(facets["version"], _decode_version)
    return None if facet is None else facet.dataset_version


def _require_sound(event: Event | _Glance) -> None:
    has_run = event.run is not None and event.run.run_id
    if not has_run and event.job is None and event.dataset is None:
        raise RejectedError(Reason.NO_IDENTITY, "there is no run.runId, no job and no dataset with namespace and name")
    try:
        parse_time(event.event_time)
    except ValueError:
        raise RejectedError(Reason.NO_TIME, f"eventTime {event.event_time[:60]!r} is no time") from None
    model = _model_in(event.schema_url or "")
    if model > NEWEST_MODEL:
        detail = f"schemaURL names model {model}; this clew reads OpenLineage up to {NEWEST_MODEL}-x-x"
        raise RejectedError(Reason.UNKNOWN_SCHEMA, detail)


@lru_cache
def _model_in(schema_url: str) -> int:
    found = _MODEL.search(schema_url)
    return 0 if found is None else int(found[1])


def _salvage(parts: Facets) -> Event:
    """Keep all parts of a flawed event that are sound: 39 % of public events break the schema somewhere."""
    time = _text(parts.get("eventTime"))
    if time is None:
        raise RejectedError(Reason.NO_TIME, "there is no eventTime, or it is no text")
    return Event(
        event_time=time,
        event_type=_text(parts.get("eventType")),
        run=_run(parts.get("run")),
        job=_job(parts.get("job")),
        dataset=_dataset(parts.get("dataset")),
        inputs=_datasets(parts.get("inputs")),
        outputs=_datasets(parts.get("outputs")),
        producer=_text(parts.get("producer")),
        schema_url=_text(parts.get("schemaURL")),
        session_id=_text(parts.get("session_id")),
        execution_id=_text(parts.get("execution_id")),
    )


def _run(raw: Raw | None) -> Run | None:
    parts = _object(raw)
    run_id = _text(parts.get("runId"))
    return None if run_id is None else Run(run_id=run_id, facets=_facets(parts.get("facets")))


def _job(raw: Raw | None) -> Job | None:
    parts = _object(raw)
    namespace, name = _text(parts.get("namespace")), _text(parts.get("name"))
    if namespace is None or name is None:
        return None
    return Job(namespace=namespace, name=name, facets=_facets(parts.get("facets")))


def _dataset(raw: Raw | None) -> Dataset | None:
    parts = _object(raw)
    namespace, name = _text(parts.get("namespace")), _text(parts.get("name"))
    if namespace is None or name is None:
        return None
    return Dataset(
        namespace=namespace,
        name=name,
        facets=_facets(parts.get("facets")),
        input_facets=_facets(parts.get("inputFacets")),
        output_facets=_facets(parts.get("outputFacets")),
    )


def _datasets(raw: Raw | None) -> list[Dataset]:
    items = part(raw, _decode_list) or []
    return [dataset for item in items if (dataset := _dataset(item)) is not None]


def _object(raw: Raw | None) -> dict[str, Raw]:
    return part(raw, _decode_object) or {}


def _facets(raw: Raw | None) -> Facets | None:
    return _object(raw) or None


def _text(raw: Raw | None) -> str | None:
    return part(raw, _decode_text)
