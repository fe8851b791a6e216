"""Collector application: the path of a request from authentication to the response, and readiness."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector as MetricCollector
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from clew.collector.file_import import tail_streams
from clew.collector.group_commit import Appender, EntryWriter
from clew.collector.ingest import IngestResult, check_event, split_payload
from clew.collector.metrics import CollectorMetrics
from clew.collector.request_body import SpooledBody, check_body_size, ingest_spooled, read_body
from clew.collector.responses import (
    InvalidEventsError,
    ThrottledErrorLog,
    batch_response,
    error_response,
    ingest_response,
)
from clew.errors import ClewError
from clew.eventlog.staging import is_imported
from clew.eventlog.writer import LogEntry
from clew.events.decoding import RejectedError
from clew.events.streams import Stream
from clew.server.auth import ANONYMOUS, Authenticator, ForbiddenError, Principal, RateLimiter
from clew.server.auth import Scope as AuthScope
from clew.server.fast_path import FastRequest, PostHandler, RawResponse, RequestInfo
from clew.server.run import healthz

# A few seconds of events.
_MIN_FREE_BYTES = 16 << 20
# Limit for several events in one body, which are parsed in memory.
_MAX_IN_MEMORY_BYTES = 32 << 20

RequestHandler: TypeAlias = Callable[[Request], Awaitable[Response]]
# Receives the result of each event, or the error of the request.
OnComplete: TypeAlias = Callable[[Sequence[IngestResult], Exception | None], None]
FastHandler: TypeAlias = Callable[[FastRequest, OnComplete], None]


def check_ready(appender: Appender) -> None:
    """Raise ClewError if an event could not be stored now."""
    appender.check_ready()
    folder = appender.folder
    if not os.access(folder, os.W_OK):
        raise ClewError(f"The log {folder} is not writable.", hint="Check the owner of the folder.")
    free = shutil.disk_usage(folder).free
    if free < _MIN_FREE_BYTES:
        raise ClewError(f"Only {free >> 20} MB are free on the disk of {folder}.", hint="Free disk space.")


@dataclass(frozen=True)
class RequestLimits:
    """Maximum body size, requests per second and client (0: unlimited), and the response to invalid events.

    Invalid events are stored as dead letters. They get 422, or 201 if `accepts_invalid`.
    """

    body_bytes: int = 256 << 20
    requests_per_second: float = 0
    accepts_invalid: bool = False


@dataclass(frozen=True)
class RequestGate:
    """Authentication and rate limit."""

    authenticator: Authenticator
    rate_limiter: RateLimiter | None

    async def authenticate(self, request: RequestInfo, scope: AuthScope) -> Principal:
        """Authenticate a request and apply the rate limit."""
        return self._check_rate(request, await self.authenticator.authenticate(request, scope))

    def authenticate_key(self, request: RequestInfo, scope: AuthScope) -> Principal:
        """Authenticate a request by API key and apply the rate limit."""
        return self._check_rate(request, self.authenticator.authenticate_key(request, scope))

    def _check_rate(self, request: RequestInfo, principal: Principal) -> Principal:
        if self.rate_limiter is not None:
            address = request.client.host if request.client else "unknown client"
            self.rate_limiter.acquire(address if principal is ANONYMOUS else principal.name)
        return principal


class CollectorEndpoint:
    """Endpoint: calls a handler, turns errors into responses, and records metrics."""

    def __init__(
        self,
        path: str,
        handler: RequestHandler,
        metrics: CollectorMetrics,
        error_log: ThrottledErrorLog,
        *,
        accepts_invalid: bool = False,
    ) -> None:
        self.path = path
        self._handler = handler
        self._accepts_invalid = accepts_invalid
        self._metrics = metrics
        self._error_log = error_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        start, request = time.perf_counter(), Request(scope, receive)
        try:
            response = await self._handler(request)
        except Exception as error:  # noqa: BLE001  # reported to the client, which sends the events again
            response = self._error_response(request, error)
        self._observe(response, start)
        await response(scope, receive, send)

    def handle_fast(self, handler: FastHandler, request: FastRequest, send: Callable[[RawResponse], None]) -> None:
        """Handle a request of the fast path, without a task: it would cost as much as checking an event."""
        start = time.perf_counter()

        def on_complete(results: Sequence[IngestResult], error: Exception | None) -> None:
            try:
                response = (
                    ingest_response(results, accepts_invalid=self._accepts_invalid)
                    if error is None
                    else self._error_response(request, error)
                )
            except (RejectedError, ForbiddenError, InvalidEventsError) as rejection:
                response = self._error_response(request, rejection)
            self._observe(response, start)
            send(RawResponse(response.status_code, response.raw_headers, bytes(response.body)))

        try:
            handler(request, on_complete)
        except Exception as error:  # noqa: BLE001  # reported to the client, which sends the events again
            on_complete((), error)

    def _error_response(self, request: RequestInfo, error: Exception) -> Response:
        response = error_response(error)
        self._error_log.record(self.path, request, response.status_code, error)
        return response

    def _observe(self, response: Response, start: float) -> None:
        self._metrics.observe_response(self.path, response.status_code, time.perf_counter() - start)


class EventHandlers:
    """Handlers of requests with events: authenticate, read the body, check the events, store them, respond."""

    def __init__(
        self,
        appender: Appender,
        spool_folder: Path,
        limits: RequestLimits,
        gate: RequestGate,
        metrics: CollectorMetrics,
    ) -> None:
        self._appender = appender
        self._spool_folder = spool_folder
        self._limits = limits
        self._gate = gate
        self._metrics = metrics

    async def handle_events(self, stream: Stream, request: Request) -> Response:
        """Store events of a stream: one, a list, or NDJSON."""
        principal = await self._gate.authenticate(request, AuthScope.WRITE)
        body = await read_body(request, self._spool_folder, self._limits.body_bytes)
        if isinstance(body, SpooledBody):
            with body:
                results = await self._ingest_spooled(body, stream, request, principal)
        else:
            results = await self._ingest(body, stream, request, principal)
        return ingest_response(results, accepts_invalid=self._limits.accepts_invalid)

    def handle_fast(self, stream: Stream, request: FastRequest, on_complete: OnComplete) -> None:
        """Store events of a stream on the fast path."""
        principal = self._gate.authenticate_key(request, AuthScope.WRITE)
        results = _check_events(request.body, stream, request, principal)

        def on_ack(error: Exception | None) -> None:
            if error is None:
                self._metrics.count_events(stream, results)
            on_complete(results, error)

        if entries := _entries(results):
            self._appender.store_nowait(entries, on_ack)
        else:
            on_ack(None)

    async def handle_batch(self, request: Request) -> Response:
        """Store a list of OpenLineage events; the response lists those that failed."""
        principal = await self._gate.authenticate(request, AuthScope.WRITE)
        body = await read_body(request, self._spool_folder, self._limits.body_bytes)
        if isinstance(body, SpooledBody):
            with body:
                check_body_size(_MAX_IN_MEMORY_BYTES, body.bytes)
                body = await run_in_threadpool(body.read)
        results = await self._ingest(body, Stream.OPENLINEAGE, request, principal)
        return batch_response(results, accepts_invalid=self._limits.accepts_invalid)

    async def _ingest(
        self, payload: bytes, stream: Stream, request: RequestInfo, principal: Principal
    ) -> list[IngestResult]:
        """Store the valid events of a payload and wait until they are synced."""
        results = _check_events(payload, stream, request, principal)
        if entries := _entries(results):
            await self._appender.store(entries)
        self._metrics.count_events(stream, results)
        return results

    async def _ingest_spooled(
        self, body: SpooledBody, stream: Stream, request: RequestInfo, principal: Principal
    ) -> list[IngestResult]:
        """Store a large body, which usually is one event."""
        try:
            result = await run_in_threadpool(
                ingest_spooled, body, stream, _user_agent(request), principal, self._appender
            )
        except RejectedError:
            if body.bytes > _MAX_IN_MEMORY_BYTES:
                raise
            # The body may contain several events.
            return await self._ingest(await run_in_threadpool(body.read), stream, request, principal)
        self._metrics.count_events(stream, [result])
        return [result]


def _check_events(payload: bytes, stream: Stream, request: RequestInfo, principal: Principal) -> list[IngestResult]:
    source = _user_agent(request)
    return [check_event(stream, source, body, principal) for body in split_payload(payload)]


def _entries(results: Sequence[IngestResult]) -> list[LogEntry]:
    return [result.entry for result in results if result.entry is not None]


def _user_agent(request: RequestInfo) -> str:
    agent = request.headers.get("user-agent", "http")[:200]
    # Facets of imported events are left to a backfill; those of clients are not.
    return f"http {agent}" if is_imported(agent) else agent


class Collector:
    """Collector application. Events bypass Starlette, whose layers would cost as much as storing them.

    `fast_path_handlers` handle small requests without ASGI, by path.
    """

    def __init__(
        self,
        app: Starlette,
        endpoints: Sequence[CollectorEndpoint],
        appender: Appender,
        fast_path_handlers: Mapping[bytes, PostHandler],
    ) -> None:
        # Shared with other writers of this process.
        self.appender = appender
        self.fast_path_handlers = fast_path_handlers
        self._app = app
        self._endpoints = {endpoint.path: endpoint for endpoint in endpoints}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch an ASGI request."""
        endpoint = self._endpoints.get(scope["path"]) if scope.get("method") == "POST" else None
        await (endpoint or self._app)(scope, receive, send)


class PipelineState(Protocol):
    """State of the pipeline that runs beside the collector; `str()` describes it."""

    @property
    def is_running(self) -> bool:
        """True while its process runs."""

    @property
    def restarts(self) -> int:
        """Number of restarts."""


def create_collector(
    log: EntryWriter,
    limits: RequestLimits,
    streams: Path,
    authenticator: Authenticator | None = None,
    expand_abandoned: Callable[[Path], None] = lambda _: None,
    read_pipeline_state: Callable[[], PipelineState] | None = None,
    more_metrics: Sequence[MetricCollector] = (),
) -> Collector:
    """Create the collector. It holds the log's lock while it runs, so it also imports notebook `streams`.

    `expand_abandoned` completes the streams of killed sessions first. Without an authenticator, access is anonymous.
    `read_pipeline_state` is for the metrics and `/readyz`. `more_metrics` are those of other parts of the process.
    """
    metrics, error_log = CollectorMetrics(log.folder), ThrottledErrorLog()
    for more in more_metrics:
        metrics.registry.register(more)
    appender = Appender(log, on_commit=metrics.observe_commit)
    metrics.pending_bytes.set_function(lambda: appender.pending_bytes)
    rate_limiter = RateLimiter(limits.requests_per_second) if limits.requests_per_second else None
    gate = RequestGate(authenticator or Authenticator(), rate_limiter)
    handlers = EventHandlers(appender, log.folder / "spool", limits, gate, metrics)

    if read_pipeline_state is not None:
        metrics.watch_pipeline(lambda: read_pipeline_state().is_running, lambda: read_pipeline_state().restarts)

    async def readyz(_: RequestInfo) -> Response:
        check_ready(appender)
        # Events are accepted while the pipeline is restarted, so its state does not change the status code.
        pipeline = "" if read_pipeline_state is None else f"pipeline: {read_pipeline_state()}\n"
        return PlainTextResponse(f"ready\n{pipeline}")

    async def metrics_endpoint(request: RequestInfo) -> Response:
        await gate.authenticate(request, AuthScope.READ)
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with appender, tail_streams(streams, appender, expand_abandoned):
            yield

    def endpoint(path: str, handler: RequestHandler) -> CollectorEndpoint:
        return CollectorEndpoint(path, handler, metrics, error_log, accepts_invalid=limits.accepts_invalid)

    streams_by_path = {
        "/api/v1/lineage": Stream.OPENLINEAGE,
        "/api/v1/events/runtime": Stream.RUNTIME,
        "/api/v1/events/dataframe": Stream.DATAFRAME,
    }
    event_endpoints = {
        stream: endpoint(path, partial(handlers.handle_events, stream)) for path, stream in streams_by_path.items()
    }
    post_endpoints = [*event_endpoints.values(), endpoint("/api/v1/lineage/batch", handlers.handle_batch)]
    monitoring = [endpoint("/readyz", readyz), endpoint("/metrics", metrics_endpoint)]
    routes = [
        *(Route(item.path, item, methods=["POST"]) for item in post_endpoints),
        *(Route(item.path, item, methods=["GET"]) for item in monitoring),
        Route("/healthz", healthz),
    ]
    fast_path_handlers = {
        item.path.encode(): partial(item.handle_fast, partial(handlers.handle_fast, stream))
        for stream, item in event_endpoints.items()
        if gate.authenticator.is_synchronous
    }
    return Collector(Starlette(routes=routes, lifespan=lifespan), post_endpoints, appender, fast_path_handlers)
