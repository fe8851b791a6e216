"""ASGI application of the collector. A 201 response means that the event is synced to disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from clew.collector.answers import batch_response, ingest_response
from clew.collector.appender import Appender
from clew.collector.bodies import check_body_size, read_body
from clew.collector.endpoints import CollectorEndpoint, OnComplete, RequestHandler, StartIngest
from clew.collector.log import LogWriter
from clew.collector.metrics import CollectorMetrics
from clew.collector.notebooks import tail_streams
from clew.collector.patience import AckCallback
from clew.collector.payloads import IngestResult, check_event, split_payload
from clew.collector.readiness import check_ready
from clew.collector.refusals import ThrottledErrorLog
from clew.collector.spool import SpooledBody, ingest_spooled
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.serving.grants import ANONYMOUS, Principal
from clew.serving.grants import Scope as AuthScope
from clew.serving.guard import Authenticator
from clew.serving.health import healthz
from clew.serving.plain import RequestInfo
from clew.serving.quick import PostHandler
from clew.serving.rates import RateLimiter

# Limit for several events in one body, which are parsed in memory.
_MAX_IN_MEMORY_BYTES = 32 << 20


@dataclass(frozen=True)
class RequestLimits:
    """Maximum body size, and requests per second and client (0: unlimited)."""

    body_bytes: int = 256 << 20
    requests_per_second: float = 0


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


class Collector:
    """Collector application. Events bypass Starlette, whose layers would cost as much as storing them.

    `fast_path_handlers` handle small requests without ASGI, by path.
    """

    def __init__(self, app: Starlette, endpoints: Sequence[CollectorEndpoint], appender: Appender) -> None:
        # Shared with other writers of this process.
        self.appender = appender
        self._app = app
        self._endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self.fast_path_handlers: Mapping[bytes, PostHandler] = {
            endpoint.path.encode(): endpoint.handle_fast for endpoint in endpoints if endpoint.has_fast_path
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch an ASGI request."""
        endpoint = self._endpoints.get(scope["path"]) if scope.get("method") == "POST" else None
        await (endpoint or self._app)(scope, receive, send)


def create_collector(
    log: LogWriter,
    limits: RequestLimits,
    streams: Path,
    authenticator: Authenticator | None = None,
    expand_abandoned: Callable[[Path], None] = lambda _: None,
) -> Collector:
    """Create the collector. It holds the log's lock while it runs, so it also imports notebook `streams`.

    `expand_abandoned` completes the streams of killed sessions first. Without an authenticator, access is anonymous.
    """
    metrics, error_log = CollectorMetrics(log.folder), ThrottledErrorLog()
    appender = Appender(log, on_commit=metrics.observe_commit)
    metrics.pending_bytes.set_function(lambda: appender.pending_bytes)
    rate_limiter = RateLimiter(limits.requests_per_second) if limits.requests_per_second else None
    gate = RequestGate(authenticator or Authenticator(), rate_limiter)
    handlers = _IngestHandlers(appender, log.folder / "spool", limits, gate, metrics)

    def endpoint(path: str, handler: RequestHandler, start_ingest: StartIngest | None = None) -> CollectorEndpoint:
        return CollectorEndpoint(
            path, handler, start_ingest if gate.authenticator.is_synchronous else None, metrics, error_log
        )

    async def readyz(_: Request) -> Response:
        check_ready(appender)
        return PlainTextResponse("ready\n")

    async def metrics_endpoint(request: Request) -> Response:
        await gate.authenticate(request, AuthScope.READ)
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with appender, tail_streams(streams, appender, expand_abandoned):
            yield

    streams_by_path = {
        "/api/v1/lineage": Stream.OPENLINEAGE,
        "/api/v1/events/runtime": Stream.RUNTIME,
        "/api/v1/events/dataframe": Stream.DATAFRAME,
    }
    event_endpoints = [
        endpoint(path, handlers.event_handler(stream), handlers.fast_path_handler(stream))
        for path, stream in streams_by_path.items()
    ]
    event_endpoints.append(endpoint("/api/v1/lineage/batch", handlers.handle_batch))
    monitoring = [endpoint("/readyz", readyz), endpoint("/metrics", metrics_endpoint)]
    routes = [
        *(Route(item.path, item, methods=["POST"]) for item in event_endpoints),
        *(Route(item.path, item, methods=["GET"]) for item in monitoring),
        Route("/healthz", healthz),
    ]
    return Collector(Starlette(routes=routes, lifespan=lifespan), event_endpoints, appender)


class _IngestHandlers:
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

    def event_handler(self, stream: Stream) -> RequestHandler:
        """Create the handler for events of a stream: one, a list, or NDJSON."""

        async def handle(request: Request) -> Response:
            principal = await self._gate.authenticate(request, AuthScope.WRITE)
            body = await read_body(request, self._spool_folder, self._limits.body_bytes)
            if isinstance(body, SpooledBody):
                with body:
                    results = await self._ingest_spooled(body, stream, request, principal)
            else:
                results = await self._ingest(body, stream, request, principal)
            return ingest_response(results)

        return handle

    def fast_path_handler(self, stream: Stream) -> StartIngest:
        """Create the fast-path handler; `on_complete` is called when the events are stored."""

        def start(request: RequestInfo, body: bytes, on_complete: OnComplete) -> None:
            principal = self._gate.authenticate_key(request, AuthScope.WRITE)
            results = _parse_events(body, stream, request, principal)

            def on_ack(error: Exception | None) -> None:
                if error is None:
                    self._metrics.count_events(stream, results)
                on_complete(results, error)

            self._append(results, on_ack)

        return start

    async def handle_batch(self, request: Request) -> Response:
        """Store a list of OpenLineage events; the response lists those that failed."""
        principal = await self._gate.authenticate(request, AuthScope.WRITE)
        body = await read_body(request, self._spool_folder, self._limits.body_bytes)
        if isinstance(body, SpooledBody):
            with body:
                check_body_size(_MAX_IN_MEMORY_BYTES, body.bytes)
                body = await run_in_threadpool(body.read)
        return batch_response(await self._ingest(body, Stream.OPENLINEAGE, request, principal))

    async def _ingest_spooled(
        self, body: SpooledBody, stream: Stream, request: Request, principal: Principal
    ) -> list[IngestResult]:
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

    async def _ingest(
        self, payload: bytes, stream: Stream, request: Request, principal: Principal
    ) -> list[IngestResult]:
        """Store the valid events of a payload and wait until they are synced."""
        results = _parse_events(payload, stream, request, principal)
        stored = asyncio.get_running_loop().create_future()

        def on_ack(error: Exception | None) -> None:
            if error is not None and not stored.done():
                stored.set_exception(error)
            elif not stored.done():
                stored.set_result(None)

        self._append(results, on_ack)
        await stored
        self._metrics.count_events(stream, results)
        return results

    def _append(self, results: Sequence[IngestResult], on_ack: AckCallback) -> None:
        """Append the valid events; `on_ack` receives the result or a timeout error."""
        entries = [result.entry for result in results if result.entry is not None]
        if entries:
            self._appender.append_nowait(entries, on_ack)
        else:
            on_ack(None)


def _parse_events(payload: bytes, stream: Stream, request: RequestInfo, principal: Principal) -> list[IngestResult]:
    source = _user_agent(request)
    return [check_event(stream, source, body, principal) for body in split_payload(payload)]


def _user_agent(request: RequestInfo) -> str:
    return request.headers.get("user-agent", "http")[:200]
