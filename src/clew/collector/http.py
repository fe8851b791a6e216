"""The collector over HTTP: what was answered with 201 is on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from clew.collector.answers import REFUSALS, batch_result, created, refusal, require_all
from clew.collector.appender import Appender, OverloadedError
from clew.collector.bodies import read_body, require_within
from clew.collector.log import LogWriter
from clew.collector.metrics import Metrics
from clew.collector.notebooks import taking_streams
from clew.collector.payloads import Taken, bodies_in, taken
from clew.collector.readiness import require_ready
from clew.collector.refusals import RefusalLog
from clew.collector.spool import Spooled, store_spooled
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.serving.grants import ANYONE, Grant
from clew.serving.grants import Scope as Right
from clew.serving.guard import Guard
from clew.serving.health import healthz
from clew.serving.rates import Rates

# Lists and lines of events are opened in memory.
_MOST_IN_MEMORY = 32 << 20
# Clients give up after five seconds and send the event again.
_ANSWER_SECONDS = 4.5

Work = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Limits:
    """How much a request may bring, and how many a second one caller may send: as many as it likes for 0."""

    body_bytes: int = 256 << 20
    requests_per_second: float = 0


@dataclass(frozen=True)
class Door:
    """Who is let in, and how often."""

    guard: Guard
    rates: Rates | None

    async def admit(self, request: Request, right: Right) -> Grant:
        """The grant of whoever calls."""
        grant = await self.guard.admit(request, right)
        if self.rates is not None:
            address = request.client.host if request.client else "someone"
            self.rates.count(address if grant is ANYONE else grant.caller)
        return grant


def create_collector(
    log: LogWriter,
    limits: Limits,
    streams: Path,
    guard: Guard | None = None,
    complete: Callable[[Path], None] = lambda _: None,
) -> ASGIApp:
    """The application that takes events into a log, which it alone writes to as long as it lives.

    So it also takes what notebooks write to their `streams`, once `complete` has seen to those that were killed.
    Without a guard, everyone is let in.
    """
    metrics = Metrics(log.folder)
    appender = Appender(log, listen=metrics.wrote)
    metrics.waiting.set_function(lambda: appender.waiting_bytes)
    rates = Rates(limits.requests_per_second) if limits.requests_per_second else None
    door = Door(guard or Guard(), rates)
    intake = _Intake(appender, log.folder / "spool", limits, door, metrics)
    refusals = RefusalLog()

    def route(path: str, work: Work, method: str = "POST") -> Route:
        return Route(path, _Endpoint(path, work, metrics, refusals), methods=[method])

    events = [
        route("/api/v1/lineage", intake.one(Stream.OPENLINEAGE)),
        route("/api/v1/lineage/batch", intake.batch),
        route("/api/v1/events/runtime", intake.one(Stream.RUNTIME)),
        route("/api/v1/events/dataframe", intake.one(Stream.DATAFRAME)),
    ]

    async def readyz(_: Request) -> Response:
        require_ready(appender)
        return PlainTextResponse("ready\n")

    async def numbers(request: Request) -> Response:
        await door.admit(request, Right.READ)
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with appender, taking_streams(streams, appender, complete):
            yield

    others = [route("/readyz", readyz, "GET"), route("/metrics", numbers, "GET"), Route("/healthz", healthz)]
    return _Collector(Starlette(routes=[*events, *others], lifespan=lifespan), events)


class _Collector:
    """The application. Events go straight to their endpoint: Starlette's layers would cost as much as storing them."""

    def __init__(self, app: Starlette, events: Sequence[Route]) -> None:
        self._app = app
        self._endpoints: dict[str, ASGIApp] = {route.path: route.app for route in events}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope.get("method") == "POST" else None
        await (endpoint or self._app)(scope, receive, send)


class _Endpoint:
    """An address: every refusal becomes an answer here, and every answer is counted."""

    def __init__(self, name: str, work: Work, metrics: Metrics, refusals: RefusalLog) -> None:
        self._name = name
        self._work = work
        self._metrics = metrics
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = time.perf_counter()
        request = Request(scope, receive)
        try:
            response = await self._work(request)
        except REFUSALS as fault:
            response = refusal(fault)
            self._refusals.note(request, response.status_code, fault)
        self._metrics.answered(self._name, response.status_code, time.perf_counter() - start)
        await response(scope, receive, send)


class _Intake:
    def __init__(self, appender: Appender, spool: Path, limits: Limits, door: Door, metrics: Metrics) -> None:
        self._appender = appender
        self._spool = spool
        self._limits = limits
        self._door = door
        self._metrics = metrics

    def one(self, stream: Stream) -> Work:
        """The endpoint for an event of a stream; several, as a list or line by line, are taken, too."""

        async def work(request: Request) -> Response:
            grant = await self._door.admit(request, Right.WRITE)
            body = await read_body(request, self._spool, self._limits.body_bytes)
            if isinstance(body, Spooled):
                with body:
                    events = await self._take_large(body, stream, request, grant)
            else:
                events = await self._take(body, stream, request, grant)
            require_all(events)
            return created(events)

        return work

    async def batch(self, request: Request) -> Response:
        """The endpoint for a list of OpenLineage events, with a result for each that failed."""
        grant = await self._door.admit(request, Right.WRITE)
        body = await read_body(request, self._spool, self._limits.body_bytes)
        if isinstance(body, Spooled):
            with body:
                require_within(_MOST_IN_MEMORY, body.bytes)
                body = await run_in_threadpool(body.read)
        return batch_result(await self._take(body, Stream.OPENLINEAGE, request, grant))

    async def _take_large(self, body: Spooled, stream: Stream, request: Request, grant: Grant) -> list[Taken]:
        try:
            event = await run_in_threadpool(store_spooled, body, stream, _source(request), grant, self._appender)
        except RejectedError:
            if body.bytes > _MOST_IN_MEMORY:
                raise
            # It is several events, maybe.
            return await self._take(await run_in_threadpool(body.read), stream, request, grant)
        self._metrics.took(stream, [event])
        return [event]

    async def _take(self, payload: bytes, stream: Stream, request: Request, grant: Grant) -> list[Taken]:
        """Store the events of a payload, durably, but for those that cannot be."""
        source = _source(request)
        events = [taken(stream, source, body, grant) for body in bodies_in(payload)]
        entries = [event.entry for event in events if event.entry is not None]
        if entries:
            await _in_time(self._appender.store_meanwhile(entries))
        self._metrics.took(stream, events)
        return events


async def _in_time(stored: asyncio.Future[None]) -> None:
    def give_up() -> None:
        if not stored.done():
            stored.set_exception(OverloadedError("The disk is slow.", hint="Send the event again, in a moment."))

    timer = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, give_up)
    try:
        await stored
    finally:
        timer.cancel()


def _source(request: Request) -> str:
    return request.headers.get("user-agent", "http")[:200]
