"""Marquez's paths, and who answers each."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from clew.api.marquez import reading, search
from clew.api.marquez.columns import ColumnGraphs
from clew.api.marquez.graph import Graphs
from clew.api.marquez.requests import Answer, Asked, Refusal, parts_of, path_parts, read_body
from clew.api.marquez.text_search import TextSearch
from clew.api.marquez.writing import Store, Writing, left_out
from clew.errors import ClewError, UsageError
from clew.query.catalog.catalog import Catalog, Catalogs
from clew.query.holdings import Holdings
from clew.serving.plain import Caller
from clew.serving.quick import Reply

Endpoint = Callable[[Catalog, Asked], Answer]

_LOG = logging.getLogger("clew.api")
_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", b"accept-encoding")
_WORTH_PACKING = 1024
# A third of the time of the usual level, for a tenth more bytes.
_GZIP_LEVEL = 1
_ANY: Final = "*"
_PREFIXES: Final = ("/api/v1/", "/api/v2beta/")
# Where all stand that are there at once.
_DOCUMENTS: Final = (b"/api/v1/jobs/", b"/api/v1/namespaces/")
# Lists and walks take milliseconds: they are answered aside, so that whoever asks for one document need not wait.
_THREADS = 4


@dataclass(frozen=True)
class Path:
    """A path with its method; `is_quick`: a document that is there in less time than it takes to ask a thread."""

    method: str
    pattern: tuple[str, ...]
    endpoint: Endpoint
    is_quick: bool = False

    def parts_of(self, parts: list[str]) -> tuple[str, ...] | None:
        """The parts that vary; None if it is another path."""
        found = []
        for known, part in zip(self.pattern, parts, strict=True):
            if known == _ANY:
                found.append(part)
            elif known != part:
                return None
        return tuple(found)


def _path(method: str, path: str, endpoint: Endpoint, *, is_quick: bool = False) -> Path:
    return Path(method, tuple(path.split("/")), endpoint, is_quick)


READ: Final = (
    _path("GET", "v1/jobs/runs/*", reading.run, is_quick=True),
    _path("GET", "v1/jobs/runs/*/facets", reading.run_facets, is_quick=True),
    _path("GET", "v1/namespaces/*/datasets/*", reading.dataset, is_quick=True),
    _path("GET", "v1/namespaces/*/jobs/*", reading.job, is_quick=True),
    _path("GET", "v1/namespaces", reading.namespaces),
    _path("GET", "v1/namespaces/*", reading.namespace),
    _path("GET", "v1/sources", reading.sources),
    _path("GET", "v1/sources/*", reading.source),
    _path("GET", "v1/namespaces/*/datasets", reading.datasets),
    _path("GET", "v1/namespaces/*/datasets/*/versions", reading.dataset_versions),
    _path("GET", "v1/namespaces/*/datasets/*/versions/*", reading.dataset_version),
    _path("GET", "v1/jobs", reading.jobs),
    _path("GET", "v1/namespaces/*/jobs", reading.jobs),
    _path("GET", "v1/namespaces/*/jobs/*/versions", reading.job_versions),
    _path("GET", "v1/namespaces/*/jobs/*/versions/*", reading.job_version),
    _path("GET", "v1/namespaces/*/jobs/*/runs", reading.runs),
    _path("GET", "v1/tags", reading.tags),
    _path("GET", "v1/events/lineage", reading.events),
    _path("GET", "v1/stats/lineage-events", reading.event_stats),
    _path("GET", "v1/stats/jobs", reading.job_stats),
    _path("GET", "v1/stats/datasets", reading.dataset_stats),
    _path("GET", "v1/stats/sources", reading.source_stats),
    _path("GET", "v1/search", search.search),
)


def _kept(holdings: Holdings) -> tuple[Path, ...]:
    """What is answered from the graphs and the words that a process keeps."""
    graphs, columns, words = Graphs(holdings), ColumnGraphs(holdings), TextSearch(holdings)
    return (
        _path("GET", "v1/lineage", graphs.lineage),
        _path("GET", "v1/column-lineage", columns.lineage),
        _path("GET", "v1/runlineage/upstream", graphs.runs),
        _path("GET", "v2beta/search/jobs", words.jobs),
        _path("GET", "v2beta/search/datasets", words.datasets),
    )


def _changes(writing: Writing) -> tuple[Path, ...]:
    dataset, job = "v1/namespaces/*/datasets/*", "v1/namespaces/*/jobs/*"
    return (
        _path("PUT", "v1/tags/*", writing.put_tag),
        _path("PUT", "v1/namespaces/*", writing.put_namespace),
        _path("PUT", "v1/sources/*", writing.put_source),
        _path("DELETE", "v1/namespaces/*", writing.delete_namespace),
        _path("DELETE", dataset, writing.delete_dataset),
        _path("DELETE", job, writing.delete_job),
        _path("POST", f"{dataset}/tags/*", writing.tag_dataset),
        _path("DELETE", f"{dataset}/tags/*", writing.untag_dataset),
        _path("POST", f"{dataset}/fields/*/tags/*", writing.tag_field),
        _path("DELETE", f"{dataset}/fields/*/tags/*", writing.untag_field),
        _path("POST", f"{job}/tags/*", writing.tag_job),
        _path("DELETE", f"{job}/tags/*", writing.untag_job),
        _path("PUT", dataset, left_out),
        _path("PUT", job, left_out),
        _path("POST", f"{job}/runs", left_out),
        *(_path("POST", f"v1/jobs/runs/*/{state}", left_out) for state in ("start", "complete", "fail", "abort")),
    )


class MarquezApi:
    """The ASGI application below `/api`."""

    def __init__(self, catalogs: Catalogs, holdings: Holdings, store: Store) -> None:
        self._catalogs = catalogs
        self._paths: dict[int, list[Path]] = {}
        changes = _changes(Writing(store, catalogs.pending))
        for path in (*READ, *_kept(holdings), *changes):
            self._paths.setdefault(len(path.pattern), []).append(path)
        self._aside = ThreadPoolExecutor(_THREADS, thread_name_prefix="clew-marquez")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            answer = await self._answer(scope, receive)
        except (Refusal, ClewError) as fault:
            answer = _refused(fault)
        await send({"type": "http.response.start", "status": answer.status, "headers": _headers(answer)})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def read(self, caller: Caller, url: bytes) -> Reply | None:
        """The same without ASGI, of a document that is there at once; None of all else."""
        if not url.startswith(_DOCUMENTS):
            return None
        raw, _, query = url.partition(b"?")
        try:
            path, parts = self._found("GET", parts_of(raw)[1:])
        except Refusal:
            return None
        if not path.is_quick:
            return None
        try:
            answer = self._ask(path, Asked(parts, query), "gzip" in caller.headers.get("accept-encoding", ""))
        except (Refusal, ClewError) as fault:
            answer = _refused(fault)
        return Reply.of(answer.status, _headers(answer), answer.body)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        path, parts = self._found(method, path_parts(scope)[1:])
        body = b"" if method == "GET" else await read_body(receive)
        asked = Asked(parts, scope["query_string"], body)
        takes_gzip = any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])
        if path.is_quick:
            return self._ask(path, asked, takes_gzip)
        return await asyncio.get_running_loop().run_in_executor(self._aside, self._ask, path, asked, takes_gzip)

    def _ask(self, path: Path, asked: Asked, takes_gzip: bool) -> Answer:  # noqa: FBT001  # a thread takes no names
        with self._catalogs.opened() as catalog:
            found = path.endpoint(catalog, asked)
        if not takes_gzip or len(found.body) < _WORTH_PACKING:
            return found
        packed = gzip.compress(found.body, _GZIP_LEVEL, mtime=0)
        return Answer(packed, found.status, (*found.headers, (b"content-encoding", b"gzip")))

    def _found(self, method: str, parts: list[str]) -> tuple[Path, tuple[str, ...]]:
        methods = set()
        for path in self._paths.get(len(parts), ()):
            found = path.parts_of(parts)
            if found is not None:
                if path.method == method:
                    return path, found
                methods.add(path.method)
        if methods:
            raise Refusal(405, f"HTTP 405 Method Not Allowed: {', '.join(sorted(methods))} would be.")
        raise Refusal(404, "HTTP 404 Not Found")


def _refused(fault: Refusal | ClewError) -> Answer:
    if isinstance(fault, ClewError):
        fault = Refusal(404 if isinstance(fault, UsageError) else 503, str(fault).replace("\n", " "))
    return fault.answer()


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [_JSON, _VARY, (b"content-length", b"%d" % len(answer.body)), *answer.headers]


class MarquezFirst:
    """Passes on what is not Marquez's. It stands before all else: a document takes less time than the layers below."""

    def __init__(self, app: ASGIApp, marquez: MarquezApi) -> None:
        self._app = app
        self._marquez = marquez

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        is_its = scope["type"] == "http" and scope["path"].startswith(_PREFIXES)
        await (self._marquez if is_its else self._app)(scope, receive, send)
