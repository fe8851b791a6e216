"""Client of the API of a Marquez server, for imports without access to its database.

The API lists run events only, by event time. Jobs and datasets without run events are read from their documents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import msgspec
from msgspec import Raw, Struct

from clew.collector.file_import import has_reserved_name
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import UNKNOWN_TIME
from clew.eventlog.writer import IncomingEvent, LogEntry
from clew.events.ids import event_id
from clew.events.streams import Stream
from clew.importer.entities import DatasetStorage, EntityDocuments, SchemaColumn
from clew.importer.marquez_database import ReadPosition
from clew.importer.state import ImportState
from clew.query.entities.aliases import JobAlias, VersionAlias

_SECONDS: Final = 300.0
_EVENTS_PER_PAGE: Final = 500
_ENTITIES_PER_PAGE: Final = 200
_START: Final = "1970-01-01T00:00:00Z"
# The default of Marquez, 2030, would hide later events.
_END: Final = "9999-01-01T00:00:00Z"
_PREFIX: Final = "/api/v1"
_KEY_VARIABLE: Final = "MARQUEZ_API_KEY"
Name = tuple[str, str]
Document = dict[str, Any]


class _EventPage(Struct):
    events: list[Raw]
    totalCount: int = 0  # noqa: N815  # the name of the API


class _EventNames(Struct):
    eventTime: str = ""  # noqa: N815
    job: _Entity | None = None
    inputs: list[_Entity] | None = None
    outputs: list[_Entity] | None = None


class _Entity(Struct):
    namespace: str = ""
    name: str = ""


_decode_page = msgspec.json.Decoder(_EventPage).decode
_decode_names = msgspec.json.Decoder(_EventNames).decode


class ApiPage(NamedTuple):
    """Events of a page with their times, what they name, and where the next import starts."""

    entries: list[tuple[LogEntry, str]]
    jobs: set[Name]
    datasets: set[Name]
    known: int
    position: ReadPosition
    recent_ids: list[str]
    total: int


class ApiAliases(NamedTuple):
    """Former addresses of jobs and versions."""

    jobs: list[JobAlias]
    versions: list[VersionAlias]


class MarquezServer:
    """Read access to a Marquez server. MARQUEZ_API_KEY is sent as bearer token, as by Marquez's own clients."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            hint = "Write it as http://host:5000/api/v1."
            raise UsageError(f"The address {url} of the Marquez server is malformed.", hint=hint)
        self.url = url.rstrip("/") if parts.path.strip("/") else f"{url.rstrip('/')}{_PREFIX}"

    def get(self, path: str, **parameters: object) -> bytes:
        """Return the body of a document."""
        url = f"{self.url}/{path}?{urlencode(parameters)}" if parameters else f"{self.url}/{path}"
        key = os.environ.get(_KEY_VARIABLE)
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        try:
            with urlopen(Request(url, headers=headers), timeout=_SECONDS) as response:  # noqa: S310  # checked above
                body: bytes = response.read()
                return body
        except HTTPError as error:
            hint = f"Check the address; {_KEY_VARIABLE} sets the key, if the server needs one."
            raise ClewError(f"GET {url} failed: HTTP {error.code} {error.reason}.", hint=hint) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            hint = "Check the address and that the server runs. Events read so far are imported; run it again."
            raise ClewError(f"Cannot read {url}: {reason}.", hint=hint) from error

    def document(self, path: str, **parameters: object) -> Document:
        """Return a JSON document."""
        body = self.get(path, **parameters)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise self._unexpected(path) from error

    def event_page(self, after: str | None, limit: int, offset: int = 0) -> tuple[list[bytes], int]:
        """Return run events from a time on, oldest first, and the number of all events."""
        path = "events/lineage"
        body = self.get(path, after=after or _START, before=_END, sortDirection="asc", limit=limit, offset=offset)
        try:
            page = _decode_page(body)
        except msgspec.DecodeError as error:
            raise self._unexpected(path) from error
        return [bytes(event) for event in page.events], page.totalCount

    def documents(self, path: str, key: str) -> Iterator[Document]:
        """Yield all documents of a list."""
        offset = 0
        while True:
            page = self.document(path, limit=_ENTITIES_PER_PAGE, offset=offset).get(key) or []
            yield from page
            offset += len(page)
            if len(page) < _ENTITIES_PER_PAGE:
                return

    def namespaces(self) -> list[Document]:
        """Return all namespaces, also hidden ones."""
        return list(self.documents("namespaces", "namespaces"))

    def counts(self) -> dict[str, int]:
        """Count namespaces, jobs, datasets and tags."""
        namespaces = self.namespaces()
        counts = {"namespaces": len(namespaces), "jobs": 0, "datasets": 0}
        for namespace in namespaces:
            for kind in ("jobs", "datasets"):
                page = self.document(f"namespaces/{quote_path(namespace['name'])}/{kind}", limit=1)
                counts[kind] += int(page.get("totalCount", 0))
        counts["tags"] = len(list(self.documents("tags", "tags")))
        return counts

    def _unexpected(self, path: str) -> ClewError:
        hint = "Pass the address of Marquez's API, such as http://host:5000/api/v1."
        return ClewError(f"{self.url}/{path} does not answer like Marquez.", hint=hint)


def quote_path(text: str) -> str:
    """Quote one segment of a path."""
    return quote(text, safe="")


def read_api_events(server: MarquezServer, state: ImportState) -> Iterator[ApiPage]:
    """Yield pages of the events that are not imported yet."""
    after, seen, offset, is_last = state.position.received, frozenset(state.recent_ids), 0, False
    while not is_last:
        bodies, total = server.event_page(after, _EVENTS_PER_PAGE, offset)
        is_last = len(bodies) < _EVENTS_PER_PAGE
        page = _parse_page(bodies, seen, after, total)
        # Paged by time, because a large offset is slow; by offset only within one time.
        if page.position.received == after:
            offset += len(bodies)
        else:
            after, offset = page.position.received, 0
        seen = frozenset(page.recent_ids)
        if bodies:
            yield page


def _parse_page(bodies: list[bytes], seen: frozenset[str], after: str | None, total: int) -> ApiPage:
    entries: list[tuple[LogEntry, str]] = []
    jobs, datasets = set[Name](), set[Name]()
    times: list[tuple[str, str]] = []
    known = 0
    for body in bodies:
        names = _names(body)
        if names.job is not None:
            jobs.add((names.job.namespace, names.job.name))
        datasets |= {(item.namespace, item.name) for item in (*(names.inputs or ()), *(names.outputs or ()))}
        event, identity = IncomingEvent(Stream.OPENLINEAGE, "", body), event_id(body)
        times.append((names.eventTime, identity))
        if identity in seen:
            known += 1
        elif not has_reserved_name(event):
            entries.append((LogEntry.from_event(event), _received_at(names.eventTime)))
    last = times[-1][0] if times and times[-1][0] else after
    recent = [identity for time, identity in times if time == last]
    if last == after:
        recent = [*seen, *recent]
    return ApiPage(entries, jobs, datasets, known, ReadPosition(last), list(dict.fromkeys(recent)), total)


def _names(body: bytes) -> _EventNames:
    try:
        return _decode_names(body)
    except msgspec.DecodeError:
        return _EventNames()


def _received_at(event_time: str) -> str:
    """Return the event time as time of receipt, which the API does not have."""
    try:
        time = datetime.fromisoformat(event_time)
    except ValueError:
        return UNKNOWN_TIME.isoformat()
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def read_api_entities(
    server: MarquezServer, documents: EntityDocuments, jobs: set[Name], datasets: set[Name], *, is_first: bool
) -> ApiAliases:
    """Add tags, owners, sources, and entities that no event names; return the former addresses.

    Only the first import has seen all events; a later one adds no entities.
    """
    aliases = ApiAliases([], [])
    for tag in server.documents("tags", "tags"):
        documents.add_tag(tag["name"], tag.get("description"))
    urls: dict[str, str] = {}
    for source in server.documents("sources", "sources"):
        kind, url = source.get("type") or "", source.get("connectionUrl") or ""
        urls[source["name"]] = url
        documents.add_source(source["name"], kind, url, source.get("description"), source.get("createdAt"))
    for namespace in server.namespaces():
        name = namespace["name"]
        owner, description = namespace.get("ownerName"), namespace.get("description")
        documents.add_namespace(name, owner, description, namespace.get("createdAt"))
        if namespace.get("isHidden"):
            documents.hide("namespace", name)
            continue
        path = f"namespaces/{quote_path(name)}"
        found_jobs = list(server.documents(f"{path}/jobs", "jobs"))
        parents = {job.get("parentJobName") for job in found_jobs}
        for job in found_jobs:
            _add_job(documents, job, jobs, aliases, is_first=is_first and job["name"] not in parents)
        for dataset in server.documents(f"{path}/datasets", "datasets"):
            _add_dataset(documents, dataset, datasets, urls, is_first=is_first)
            versions = f"{path}/datasets/{quote_path(dataset['name'])}/versions"
            _add_versions(server, versions, dataset, aliases)
    return aliases


def _add_job(
    documents: EntityDocuments, job: Document, known: set[Name], aliases: ApiAliases, *, is_first: bool
) -> None:
    namespace, name = job["namespace"], job["name"]
    simple_name = job.get("simpleName") or name
    event_name = simple_name if (namespace, name) not in known and job.get("parentJobName") else name
    if event_name != name:
        aliases.jobs.append(JobAlias(namespace, name, event_name))
    if tags := job.get("tags"):
        documents.add_tags("job", namespace, event_name, [(None, tag) for tag in tags])
    if is_first and (namespace, event_name) not in known:
        documents.add_job(
            namespace,
            event_name,
            job["createdAt"],
            kind=job.get("type"),
            description=job.get("description"),
            location=job.get("location"),
            inputs=_names_of(job.get("inputs")),
            outputs=_names_of(job.get("outputs")),
        )


def _add_dataset(
    documents: EntityDocuments, dataset: Document, known: set[Name], urls: Mapping[str, str], *, is_first: bool
) -> None:
    namespace, name = dataset["namespace"], dataset["name"]
    fields = dataset.get("fields") or []
    tags = [(None, tag) for tag in dataset.get("tags") or []]
    tags += [(column["name"], tag) for column in fields for tag in column.get("tags") or []]
    if tags:
        documents.add_tags("dataset", namespace, name, tags)
    if is_first and (namespace, name) not in known:
        columns = [SchemaColumn(column["name"], column.get("type"), column.get("description")) for column in fields]
        source = dataset.get("sourceName")
        documents.add_dataset(
            namespace,
            name,
            dataset["createdAt"],
            storage=DatasetStorage(
                dataset.get("type") or "", dataset.get("physicalName") or name, source, urls.get(str(source))
            ),
            description=dataset.get("description"),
            fields=columns,
        )


def _add_versions(server: MarquezServer, path: str, dataset: Mapping[str, Any], aliases: ApiAliases) -> None:
    for version in server.documents(path, "versions"):
        run = version.get("createdByRun") or {}
        if run.get("id") and version.get("version"):
            aliases.versions.append(VersionAlias(version["version"], dataset["namespace"], dataset["name"], run["id"]))


def _names_of(items: list[Document] | None) -> list[Name]:
    return [(item["namespace"], item["name"]) for item in items or []]
