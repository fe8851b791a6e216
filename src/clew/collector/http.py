"""The collector over HTTP: what was answered with 201 is on disk."""

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

from clew.collector.answers import batch_result, result_of
from clew.collector.appender import Appender
from clew.collector.bodies import read_body, require_within
from clew.collector.endpoints import Begin, End, Endpoint, Work
from clew.collector.log import LogWriter
from clew.collector.metrics import Metrics
from clew.collector.notebooks import taking_streams
from clew.collector.patience import Then
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
from clew.serving.plain import Caller
from clew.serving.quick import Take
from clew.serving.rates import Rates

# Lists and lines of events are opened in memory.
_MOST_IN_MEMORY = 32 << 20


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

    async def admit(self, caller: Caller, right: Right) -> Grant:
        """The grant of whoever calls."""
        return self._counted(caller, await self.guard.admit(caller, right))

    def admit_key(self, caller: Caller, right: Right) -> Grant:
        """The same of whoever calls with a key."""
        return self._counted(caller, self.guard.admit_key(caller, right))

    def _counted(self, caller: Caller, grant: Grant) -> Grant:
        if self.rates is not None:
            address = caller.client.host if caller.client else "someone"
            self.rates.count(address if grant is ANYONE else grant.caller)
        return grant


class Collector:
    """The application. Events go straight to their endpoint: Starlette's layers would cost as much as storing them.

    `takes` has those that take a small request without ASGI, by their path.
    """

    def __init__(self, app: Starlette, events: Sequence[Endpoint], appender: Appender) -> None:
        # Who else has something to append shares it.
        self.appender = appender
        self._app = app
        self._events = {endpoint.path: endpoint for endpoint in events}
        self.takes: Mapping[bytes, Take] = {
            endpoint.path.encode(): endpoint.answer for endpoint in events if endpoint.is_quick
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as ASGI has it."""
        endpoint = self._events.get(scope["path"]) if scope.get("method") == "POST" else None
        await (endpoint or self._app)(scope, receive, send)


def create_collector(
    log: LogWriter,
    limits: Limits,
    streams: Path,
    guard: Guard | None = None,
    complete: Callable[[Path], None] = lambda _: None,
) -> Collector:
    """The application that takes events into a log, which it alone writes to as long as it lives.

    So it also takes what notebooks write to their `streams`, once `complete` has seen to those that were killed.
    Without a guard, everyone is let in.
    """
    metrics, refusals = Metrics(log.folder), RefusalLog()
    appender = Appender(log, listen=metrics.wrote)
    metrics.waiting.set_function(lambda: appender.waiting_bytes)
    rates = Rates(limits.requests_per_second) if limits.requests_per_second else None
    door = Door(guard or Guard(), rates)
    intake = _Intake(appender, log.folder / "spool", limits, door, metrics)

    def endpoint(path: str, work: Work, begin: Begin | None = None) -> Endpoint:
        return Endpoint(path, work, begin if door.guard.is_quick else None, metrics, refusals)

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

    one = {
        "/api/v1/lineage": Stream.OPENLINEAGE,
        "/api/v1/events/runtime": Stream.RUNTIME,
        "/api/v1/events/dataframe": Stream.DATAFRAME,
    }
    events = [endpoint(path, intake.one(stream), intake.beginning(stream)) for path, stream in one.items()]
    events.append(endpoint("/api/v1/lineage/batch", intake.batch))
    asked = [endpoint("/readyz", readyz), endpoint("/metrics", numbers)]
    routes = [
        *(Route(one.path, one, methods=["POST"]) for one in events),
        *(Route(one.path, one, methods=["GET"]) for one in asked),
        Route("/healthz", healthz),
    ]
    return Collector(Starlette(routes=routes, lifespan=lifespan), events, appender)


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
            return result_of(events)

        return work

    def beginning(self, stream: Stream) -> Begin:
        """The same for a small request, without waiting: `end` is called when its events are stored."""

        def begin(caller: Caller, body: bytes, end: End) -> None:
            grant = self._door.admit_key(caller, Right.WRITE)
            events = _events_in(body, stream, caller, grant)

            def stored(fault: Exception | None) -> None:
                if fault is None:
                    self._metrics.took(stream, events)
                end(events, fault)

            self._store(events, stored)

        return begin

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
        events = _events_in(payload, stream, request, grant)
        stored = asyncio.get_running_loop().create_future()

        def settle(fault: Exception | None) -> None:
            if fault is not None and not stored.done():
                stored.set_exception(fault)
            elif not stored.done():
                stored.set_result(None)

        self._store(events, settle)
        await stored
        self._metrics.took(stream, events)
        return events

    def _store(self, events: Sequence[Taken], then: Then) -> None:
        """Store what can be, and tell when that is done, or takes longer than a client waits."""
        entries = [event.entry for event in events if event.entry is not None]
        if entries:
            self._appender.store_meanwhile(entries, then)
        else:
            then(None)


def _events_in(payload: bytes, stream: Stream, caller: Caller, grant: Grant) -> list[Taken]:
    source = _source(caller)
    return [taken(stream, source, body, grant) for body in bodies_in(payload)]


def _source(caller: Caller) -> str:
    return caller.headers.get("user-agent", "http")[:200]
