"""Reference implementation: parser of log lines, independent of the code under test."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

# Facet names and their JSON text, byte for byte as in the event.
Facets = dict[str, str]
Name = tuple[str, str]

WHITESPACE = " \t\r\n"
MAX_SPEC_MAJOR = 2


@dataclass(frozen=True)
class Dataset:
    namespace: str
    name: str
    facets: Facets = field(default_factory=dict)
    input_facets: Facets = field(default_factory=dict)
    output_facets: Facets = field(default_factory=dict)

    @property
    def key(self) -> Name:
        return self.namespace, self.name

    @property
    def version(self) -> str | None:
        return string_at(parse_json(self.facets.get("version")), "datasetVersion")


@dataclass(frozen=True)
class Event:
    """An OpenLineage event; `at` is its event time in microseconds, `seq` its position in the order of receipt.

    Of two facets the one of the event with the greater `merge_key` counts.
    """

    seq: int
    merge_key: tuple[int, ...]
    text: str
    at: int
    kind: str
    run: str | None
    job: Name | None
    subject: Dataset | None
    inputs: list[Dataset]
    outputs: list[Dataset]
    run_facets: Facets
    job_facets: Facets
    session_id: str | None
    execution_id: str | None

    @property
    def datasets(self) -> list[Dataset]:
        return [*self.inputs, *self.outputs, *([self.subject] if self.subject else [])]


class InvalidEventError(Exception):
    """The body is not a valid event."""


def log_lines(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of each line of a log; files are named by the position of their first byte."""
    for path in sorted(folder.glob("*.ndjson")):
        position = int(path.stem)
        for line in path.read_bytes().splitlines(keepends=True):
            yield position, line
            position += len(line)


def lineage_events(lines: Iterable[tuple[int, bytes]], *, is_by_time: bool = False) -> list[Event]:
    """Return the valid OpenLineage events of the lines, without duplicates, in the order of receipt.

    Facets are merged in the same order, or by event time.
    """
    events_by_body: dict[bytes, Event] = {}
    for seq, line in sorted(lines):
        stream, body = parse_record(line)
        if stream == "openlineage" and body not in events_by_body:
            try:
                events_by_body[body] = parse_event(seq, body, is_by_time=is_by_time)
            except InvalidEventError:
                continue
    return list(events_by_body.values())


def in_merge_order(events: Iterable[Event]) -> list[Event]:
    """Return the events sorted by precedence of their facets, the last one wins."""
    return sorted(events, key=lambda event: event.merge_key)


def parse_record(line: bytes) -> tuple[str, bytes]:
    """Return the stream and the event body of a log line."""
    parts = object_members(line.decode())
    if "bytes" in parts:
        return json.loads(parts["stream"]), base64.b64decode(json.loads(parts["bytes"]))
    return json.loads(parts["stream"]), parts["event"].encode()


def parse_event(seq: int, body: bytes, *, is_by_time: bool) -> Event:
    try:
        text = body.decode()
        json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidEventError from error
    parts = object_members(text)
    run, job = object_members(parts.get("run")), object_members(parts.get("job"))
    at = parse_time(string_value(parts.get("eventTime")))
    event = Event(
        seq=seq,
        merge_key=(at, seq) if is_by_time else (seq,),
        text=text,
        at=at,
        kind=(string_value(parts.get("eventType")) or "").upper(),
        run=string_value(run.get("runId")) or None,
        job=parse_name(job),
        subject=parse_dataset(parts.get("dataset")),
        inputs=parse_datasets(parts.get("inputs")),
        outputs=parse_datasets(parts.get("outputs")),
        run_facets=object_members(run.get("facets")),
        job_facets=object_members(job.get("facets")),
        session_id=string_value(parts.get("session_id")),
        execution_id=string_value(parts.get("execution_id")),
    )
    has_job = "job" in parts and parts["job"] != "null"
    for key, is_identified in {"run": event.run, "job": event.job, "dataset": event.subject}.items():
        if parts.get(key, "null") != "null" and not is_identified:
            raise InvalidEventError
    schema = string_value(parts.get("schemaURL")) or ""
    is_run_event = schema.endswith("/RunEvent") or (
        string_value(parts.get("eventType")) is not None and not schema.endswith(("/JobEvent", "/DatasetEvent"))
    )
    if (event.run and not has_job) or (is_run_event and not event.run and not event.subject):
        raise InvalidEventError
    model = re.search(r"/spec/(\d+)-\d+-\d+/", string_value(parts.get("schemaURL")) or "")
    if not (event.run or event.job or event.subject) or (model and int(model[1]) > MAX_SPEC_MAJOR):
        raise InvalidEventError
    return event


def parse_dataset(text: str | None) -> Dataset | None:
    parts = object_members(text)
    key = parse_name(parts)
    if key is None:
        return None
    return Dataset(*key, *(object_members(parts.get(kind)) for kind in ("facets", "inputFacets", "outputFacets")))


def parse_datasets(text: str | None) -> list[Dataset]:
    datasets = [parse_dataset(item) for item in array_items(text) if item != "null"]
    if None in datasets:
        raise InvalidEventError
    return [dataset for dataset in datasets if dataset]


def parse_name(parts: dict[str, str]) -> Name | None:
    namespace, name = string_value(parts.get("namespace")), string_value(parts.get("name"))
    return (namespace, name) if namespace and name else None


def parse_time(text: str | None) -> int:
    """Return microseconds since 1970; a time without a zone is UTC."""
    try:
        normalized = re.sub(r"\[.*\]$", "", (text or "").strip()).upper()
        time = datetime.fromisoformat(re.sub(r"([+-]\d\d:\d\d)Z$", r"\1", normalized))
    except ValueError as error:
        raise InvalidEventError from error
    return (time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def string_value(text: str | None) -> str | None:
    """Return the value of a JSON text if it is a string."""
    value = None if text is None else json.loads(text)
    return value if isinstance(value, str) else None


def parse_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def string_at(value: Any, *path: str) -> str | None:
    """Return the string at a path of object members, if there is one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def is_deleted(facet: str) -> bool:
    value = json.loads(facet)
    return isinstance(value, dict) and value.get("_deleted") is True


def parse_optional_time(text: str | None) -> int | None:
    try:
        return parse_time(text)
    except InvalidEventError:
        return None


def object_members(text: str | None) -> dict[str, str]:
    """Return the members of a JSON object with the original text of each value; none if it is not an object."""
    members: dict[str, str] = {}
    if text is None or not text.strip(WHITESPACE).startswith("{"):
        return members
    offset = _skip_separators(text, text.index("{") + 1)
    while text[offset] != "}":
        name, offset = _decode(text, offset)
        start = _skip_separators(text, offset)
        _, offset = _decode(text, start)
        members[name] = text[start:offset]
        offset = _skip_separators(text, offset)
    return members


def array_items(text: str | None) -> list[str]:
    """Return the original text of each item of a JSON array; none if it is not an array."""
    items: list[str] = []
    if text is None or not text.strip(WHITESPACE).startswith("["):
        return items
    offset = _skip_separators(text, text.index("[") + 1)
    while text[offset] != "]":
        start = offset
        _, offset = _decode(text, start)
        items.append(text[start:offset])
        offset = _skip_separators(text, offset)
    return items


def _skip_separators(text: str, offset: int) -> int:
    """Return the offset of the next value or closing bracket."""
    while text[offset] in WHITESPACE + ",:":
        offset += 1
    return offset


_decode = json.JSONDecoder().raw_decode


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
