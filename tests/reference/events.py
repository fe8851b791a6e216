"""Lines of the log, opened the slow and plain way, with nothing of the program under test."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

# Names of facets and their JSON, exactly as it stood in the event.
Facets = dict[str, str]
Name = tuple[str, str]

SPACE = " \t\r\n"
NEWEST_MODEL = 2


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
        return said(opened(self.facets.get("version")), "datasetVersion")


@dataclass(frozen=True)
class Event:
    """An OpenLineage event; `at` is its own time in microseconds, `seq` says in which order events were received.

    Of two facets that of the event with the greater `turn` counts.
    """

    seq: int
    turn: tuple[int, ...]
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


class NoEventError(Exception):
    """What is no event, and so is rejected."""


def log_lines(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Each line of a log and its position: files are named by the position of their first byte."""
    for path in sorted(folder.glob("*.ndjson")):
        position = int(path.stem)
        for line in path.read_bytes().splitlines(keepends=True):
            yield position, line
            position += len(line)


def lineage_events(lines: Iterable[tuple[int, bytes]], *, is_by_time: bool = False) -> list[Event]:
    """The OpenLineage events among the lines that can be read, each once, in the order received.

    What their facets say counts in the same order, or by the events' own times.
    """
    found: dict[bytes, Event] = {}
    for seq, line in sorted(lines):
        stream, body = received(line)
        if stream == "openlineage" and body not in found:
            try:
                found[body] = event(seq, body, is_by_time=is_by_time)
            except NoEventError:
                continue
    return list(found.values())


def in_turn(events: Iterable[Event]) -> list[Event]:
    """The events, the one whose facets count at the end."""
    return sorted(events, key=lambda event: event.turn)


def received(line: bytes) -> tuple[str, bytes]:
    """The stream that a line of the log names, and the event's own bytes in it."""
    parts = members(line.decode())
    if "bytes" in parts:
        return json.loads(parts["stream"]), base64.b64decode(json.loads(parts["bytes"]))
    return json.loads(parts["stream"]), parts["event"].encode()


def event(seq: int, body: bytes, *, is_by_time: bool) -> Event:
    try:
        text = body.decode()
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as fault:
        raise NoEventError from fault
    parts = members(text)
    run, job = members(parts.get("run")), members(parts.get("job"))
    at = moment(word(parts.get("eventTime")))
    found = Event(
        seq=seq,
        turn=(at, seq) if is_by_time else (seq,),
        text=text,
        at=at,
        kind=(word(parts.get("eventType")) or "").upper(),
        run=word(run.get("runId")) or None,
        job=named(job),
        subject=dataset(parts.get("dataset")),
        inputs=datasets(parts.get("inputs")),
        outputs=datasets(parts.get("outputs")),
        run_facets=members(run.get("facets")),
        job_facets=members(job.get("facets")),
        session_id=word(parts.get("session_id")),
        execution_id=word(parts.get("execution_id")),
    )
    model = re.search(r"/spec/(\d+)-\d+-\d+/", word(parts.get("schemaURL")) or "")
    if not (found.run or found.job or found.subject) or (model and int(model[1]) > NEWEST_MODEL):
        raise NoEventError
    return found


def dataset(text: str | None) -> Dataset | None:
    parts = members(text)
    key = named(parts)
    if key is None:
        return None
    return Dataset(*key, *(members(parts.get(kind)) for kind in ("facets", "inputFacets", "outputFacets")))


def datasets(text: str | None) -> list[Dataset]:
    return [found for item in items(text) if (found := dataset(item))]


def named(parts: dict[str, str]) -> Name | None:
    namespace, name = word(parts.get("namespace")), word(parts.get("name"))
    return None if namespace is None or name is None else (namespace, name)


def moment(text: str | None) -> int:
    """Microseconds since 1970; a time without a zone is UTC."""
    try:
        plain = re.sub(r"\[.*\]$", "", (text or "").strip()).upper()
        time = datetime.fromisoformat(re.sub(r"([+-]\d\d:\d\d)Z$", r"\1", plain))
    except ValueError as fault:
        raise NoEventError from fault
    return (time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def word(text: str | None) -> str | None:
    """What a JSON text says if it is a string."""
    value = None if text is None else json.loads(text)
    return value if isinstance(value, str) else None


def opened(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def said(value: Any, *path: str) -> str | None:
    """The string at the end of a path through objects, if there is one."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def is_deleted(facet: str) -> bool:
    value = json.loads(facet)
    return isinstance(value, dict) and value.get("_deleted") is True


def time_or_none(text: str | None) -> int | None:
    try:
        return moment(text)
    except NoEventError:
        return None


def members(text: str | None) -> dict[str, str]:
    """The members of a JSON object, each value as the very text that stood there; no members if it is no object."""
    found: dict[str, str] = {}
    if text is None or not text.strip(SPACE).startswith("{"):
        return found
    place = _beyond(text, text.index("{") + 1)
    while text[place] != "}":
        name, place = _decode(text, place)
        start = _beyond(text, place)
        _, place = _decode(text, start)
        found[name] = text[start:place]
        place = _beyond(text, place)
    return found


def items(text: str | None) -> list[str]:
    """The items of a JSON array, likewise."""
    found: list[str] = []
    if text is None or not text.strip(SPACE).startswith("["):
        return found
    place = _beyond(text, text.index("[") + 1)
    while text[place] != "]":
        start = place
        _, place = _decode(text, start)
        found.append(text[start:place])
        place = _beyond(text, place)
    return found


def _beyond(text: str, place: int) -> int:
    """The next place where a value or an end stands."""
    while text[place] in SPACE + ",:":
        place += 1
    return place


_decode = json.JSONDecoder().raw_decode


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
