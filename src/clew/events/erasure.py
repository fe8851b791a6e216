"""Erasure of a dataset, a notebook session or a namespace from events.

Events of the entity itself are deleted. From other events, what refers to it is removed, so that their runs, jobs and
other datasets remain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from clew.events.decoding import Document, RejectedError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE, Event
from clew.events.streams import AnyEvent, decode_event

Name = tuple[str, str]


class ErasureKind(StrEnum):
    """Kind of an entity that can be erased."""

    DATASET = "dataset"
    SESSION = "session"
    NAMESPACE = "namespace"


class ErasureTarget(Struct, frozen=True):
    """An entity to erase: a session or namespace by its `id`, or a dataset by all of its names."""

    kind: ErasureKind
    id: str = ""
    names: tuple[Name, ...] = ()

    def __str__(self) -> str:
        text = self.id if self.kind is not ErasureKind.DATASET else ", ".join(":".join(name) for name in self.names)
        return f"the {self.kind} {text}"


# Shorter texts occur by chance.
_MIN_MASKED_CHARS: Final = 4
_MASK: Final = "***"
# Their values identify entities and events, and are not masked.
_IDENTITY_KEYS: Final = frozenset(
    (
        "namespace name field runId _producer _schemaURL producer schemaURL eventTime eventType session_id sessionId"
        " execution_id executionId cell_id run_id event_type timestamp emitted_at variable_name object_id"
    ).split()
)
# Under these keys, namespace and name are those of a job.
_JOB_KEYS: Final = frozenset({"job", "root", "parent"})
_ESCAPES: Final = re.compile(rb"\\[u/]")
_RUN_ID: Final = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_REMOVED: Final = object()


class EventEraser:
    """Erases entities from events. Every event must be passed to `collect` before the first one to `erase`."""

    def __init__(self, target: ErasureTarget) -> None:
        self.target = target
        self._names = frozenset(target.names)
        self._texts = sorted({name for _, name in target.names} if target.names else {target.id})
        self._tokens = [json.dumps(text, ensure_ascii=False)[1:-1].encode() for text in self._texts]
        names = [name.rstrip("/") for _, name in target.names]
        files = [name.rpartition("/")[2] for name in names]
        tables = [name.rpartition(".")[2] for name in files]
        self._full_name = _compile(names)
        self._any_name = _compile([*names, *files, *(name for name in tables if name not in _EXTENSIONS)])
        # Runs of the session, and cells that read or write the dataset.
        self._runs: set[str] = set()
        self._cells: set[Name] = set()
        self._cell_ids: set[bytes] = set()

    def collect(self, stream: str, body: Document) -> None:
        """Learn the runs of the session, or the cells that use the dataset, from an event."""
        if self.target.kind is ErasureKind.NAMESPACE or not self._has_token(bytes(body)):
            return
        event = _decode(stream, body)
        if not isinstance(event, Event):
            return
        if self.target.kind is ErasureKind.SESSION:
            if event.run is not None and event.session_id == self.target.id:
                self._runs.add(event.run.run_id)
        elif self._uses_dataset(event) and event.session_id and event.execution_id:
            self._cells.add((event.session_id, event.execution_id))
            self._cell_ids.add(event.execution_id.encode())

    def erase(self, stream: str, source: str, body: bytes) -> bytes:
        """Return the event: unchanged, without what refers to the entity, or empty if it must be deleted."""
        if not self._may_match(source, body):
            return body
        event = _decode(stream, body)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if event is None or not isinstance(document, dict):
            return b"" if self.mentions(body) else body
        if self._is_own(event, source):
            return b""
        if self.target.kind is ErasureKind.SESSION:
            return body
        erased = self._without_references(document, event)
        if erased == document:
            return body
        encoded = _encode(erased)
        # Nothing may be left that identifies an event.
        return encoded if _has_content(erased) and _decode(stream, encoded) is not None else b""

    def mentions(self, text: bytes) -> bool:
        """Return whether a text contains the name of a dataset, or the id as a JSON string."""
        is_namespace = self.target.kind is ErasureKind.NAMESPACE
        return any(
            (b'"%s"' % token if is_namespace or len(token) < _MIN_MASKED_CHARS else token) in text
            for token in self._tokens
        )

    def is_erased(self, namespace: str, name: str) -> bool:
        """Return whether a dataset is erased, by itself or with its namespace."""
        return namespace == self.target.id or (namespace, name) in self._names

    def mask(self, text: str | None) -> str | None:
        """Mask the names of the dataset in a text."""
        return text if text is None or self._any_name is None else self._any_name.sub(_MASK, text)

    def _has_token(self, body: bytes) -> bool:
        return any(token in body for token in self._tokens) or _ESCAPES.search(body) is not None

    def _may_match(self, source: str, body: bytes) -> bool:
        if self._has_token(body) or any(cell in body for cell in self._cell_ids):
            return True
        if self.target.kind is ErasureKind.SESSION:
            is_child = b'"parent"' in body and not self._runs.isdisjoint(map(bytes.decode, _RUN_ID.findall(body)))
            return is_child or source.startswith(f"{self.target.id}/")
        # Events of notebooks do not contain their namespace.
        return self.target.kind is ErasureKind.NAMESPACE and self.target.id == NOTEBOOK_NAMESPACE

    def _is_own(self, event: AnyEvent, source: str) -> bool:
        """Return whether the whole event belongs to the entity."""
        target = self.target
        if target.kind is ErasureKind.SESSION:
            if event.session_id == target.id or source.startswith(f"{target.id}/"):
                return True
            return isinstance(event, Event) and not self._runs.isdisjoint(_parent_runs(event))
        if not isinstance(event, Event):
            return target.kind is ErasureKind.NAMESPACE and target.id == NOTEBOOK_NAMESPACE
        subject = event.dataset if event.kind == "DATASET" else event.job
        if subject is None:
            return False
        if target.kind is ErasureKind.NAMESPACE:
            return subject.namespace == target.id
        return event.kind == "DATASET" and (subject.namespace, subject.name) in self._names

    def _uses_dataset(self, event: Event) -> bool:
        datasets = (*(event.inputs or ()), *(event.outputs or ()))
        return any((dataset.namespace, dataset.name) in self._names for dataset in datasets)

    def _without_references(self, document: dict[str, Any], event: AnyEvent) -> dict[str, Any]:
        is_user = isinstance(event, Event) and self._uses_dataset(event)
        in_cell = (event.session_id or "", event.execution_id or "") in self._cells
        pattern = self._any_name if is_user or in_cell else self._full_name
        if not isinstance(event, Event):
            masked: dict[str, Any] = _mask(document, pattern)
            return masked
        erased = {}
        for key, value in document.items():
            if key in {"inputs", "outputs"} and isinstance(value, list):
                erased[key] = [self._without_facets(item, pattern) for item in value if not self._is_reference(item)]
            elif key in {"run", "job", "dataset"}:
                erased[key] = self._without_facets(value, pattern)
            else:
                erased[key] = value
        return erased

    def _without_facets(self, entity: Any, pattern: re.Pattern[str] | None) -> Any:
        """Return a run, a job or a dataset without facets, or parts of them, that refer to the entity."""
        if not isinstance(entity, dict):
            return entity
        is_annotated = (entity.get("namespace"), entity.get("name")) == (ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME)
        erased = {}
        for key, value in entity.items():
            if key not in {"facets", "inputFacets", "outputFacets"} or not isinstance(value, dict):
                erased[key] = value
                continue
            facets = {
                name: self._without_items(facet)
                for name, facet in value.items()
                if not (is_annotated and self.is_annotation(name))
            }
            erased[key] = {name: _mask(facet, pattern) for name, facet in facets.items() if facet is not _REMOVED}
        return erased

    def _without_items(self, value: Any, key: str = "") -> Any:
        """Return a part of a facet without the list items that refer to the entity; _REMOVED if nothing remains."""
        if isinstance(value, list):
            items = [self._without_items(item, key) for item in value if not self._is_reference(item, key)]
            kept = [item for item in items if item is not _REMOVED]
            return _REMOVED if value and not kept else kept
        if not isinstance(value, dict):
            return value
        if self._is_reference(value, key):
            return _REMOVED
        erased = {name: self._without_items(item, name) for name, item in value.items()}
        removed = [name for name, item in erased.items() if item is _REMOVED]
        # Columns of `columnLineage` are independent of each other; a member of another object is not.
        if removed and (key != "fields" or len(removed) == len(erased)):
            return _REMOVED
        return {name: item for name, item in erased.items() if item is not _REMOVED}

    def _is_reference(self, value: Any, key: str = "") -> bool:
        if not isinstance(value, dict):
            return False
        namespace, name = value.get("namespace"), value.get("name")
        if self.target.kind is ErasureKind.NAMESPACE:
            return bool(namespace == self.target.id)
        return key not in _JOB_KEYS and (namespace, name) in self._names

    def is_annotation(self, facet: str) -> bool:
        """Return whether a facet of the annotations is about the entity."""
        try:
            kind, *identity = json.loads(facet[facet.index("[") :])
        except ValueError:
            return False
        if self.target.kind is ErasureKind.NAMESPACE:
            return self.target.id in (identity[:1] if kind == "namespace" else identity[1:2])
        return identity[:1] == ["dataset"] and tuple(identity[1:3]) in self._names


# Last parts of the names of files.
_EXTENSIONS: Final = frozenset("csv gz html ipynb json jsonl md ndjson orc parquet pickle pkl txt xls xlsx zst".split())


def _compile(texts: list[str]) -> re.Pattern[str] | None:
    """Compile a pattern of whole words; None if no text is long enough."""
    parts = {re.escape(text) for text in texts if len(text) >= _MIN_MASKED_CHARS}
    # Longest first.
    union = "|".join(sorted(parts, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{union})(?!\w)") if parts else None


def _mask(value: Any, pattern: re.Pattern[str] | None, key: str = "") -> Any:
    if pattern is None:
        return value
    if isinstance(value, str):
        return value if key in _IDENTITY_KEYS else pattern.sub(_MASK, value)
    if isinstance(value, list):
        return [_mask(item, pattern, key) for item in value]
    return {name: _mask(item, pattern, name) for name, item in value.items()} if isinstance(value, dict) else value


def _parent_runs(event: Event) -> Iterator[str]:
    """Yield the ids of the parent and root runs of an event."""
    facet = None if event.run is None or event.run.facets is None else event.run.facets.get("parent")
    try:
        parent: Any = json.loads(bytes(facet)) if facet is not None else {}
        for item in (parent, parent.get("root")):
            yield item["run"]["runId"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return


def _has_content(document: dict[str, Any]) -> bool:
    """Return whether an event is more than annotations that were all removed."""
    dataset = document.get("dataset")
    return not isinstance(dataset, dict) or bool(dataset.get("facets")) or "job" in document


def _decode(stream: str, body: Document) -> AnyEvent | None:
    try:
        return decode_event(stream, body, "1970-01-01T00:00:00Z")
    except RejectedError:
        return None


def _encode(document: dict[str, Any]) -> bytes:
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # A lone surrogate.
        return json.dumps(document, separators=(",", ":")).encode()
