"""The collector over HTTP: what was answered with 201 is on disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from clew.collector.appender import Appender, OverloadedError
from clew.collector.encodings import MalformedBodyError, UnknownEncodingError, inflater
from clew.collector.log import LogWriter
from clew.collector.notebooks import taking_streams
from clew.collector.payloads import Taken, bodies_in, taken
from clew.collector.spool import Spooled, store_spooled
from clew.errors import ClewError
from clew.events.rejection import RejectedError
from clew.events.stream import Stream

_LOG = logging.getLogger("clew.collector")
_SPOOL_BYTES = 256 << 10
# Lists and lines of events are opened in memory.
_MOST_IN_MEMORY = 32 << 20
# Clients give up after five seconds and send the event again.
_ANSWER_SECONDS = 4.5
_IDLE_SECONDS = 30.0
_COME_BACK: Final = {"retry-after": "1"}
_DEAD_LETTER: Final = "clew-dead-letter"


@dataclass(frozen=True)
class Limits:
    """How much a request may bring."""

    body_bytes: int = 256 << 20


class FailedEvent(Struct, omit_defaults=True):
    """Why an event of a batch was not stored, and whether to send it again."""

    index: int
    reason: str
    retriable: bool


class Summary(Struct):
    """How many events of a batch were stored."""

    received: int
    successful: int
    failed: int
    retriable: int
    non_retriable: int


class BatchResult(Struct):
    """The answer to a batch, as the OpenLineage API has it."""

    status: str
    summary: Summary
    failed_events: list[FailedEvent]


class TooLargeError(ClewError):
    """A body beyond the limit."""


def create_collector(log: LogWriter, limits: Limits, streams: Path) -> Starlette:
    """The application that takes events into a log, which it alone writes to as long as it lives.

    So it also takes what notebooks write to their `streams`.
    """
    appender = Appender(log)
    intake = _Intake(appender, log.folder / "spool", limits)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with appender, taking_streams(streams, appender):
            yield

    return Starlette(
        routes=[
            Route("/api/v1/lineage", intake.one(Stream.OPENLINEAGE), methods=["POST"]),
            Route("/api/v1/lineage/batch", intake.batch, methods=["POST"]),
            Route("/api/v1/events/runtime", intake.one(Stream.RUNTIME), methods=["POST"]),
            Route("/api/v1/events/dataframe", intake.one(Stream.DATAFRAME), methods=["POST"]),
            Route("/healthz", _healthz),
        ],
        lifespan=lifespan,
        exception_handlers={
            OverloadedError: _overloaded,
            TooLargeError: _refusing(413),
            UnknownEncodingError: _refusing(415),
            MalformedBodyError: _refusing(400),
            RejectedError: _rejected,
            TimeoutError: _slow,
            ClientDisconnect: _gone,
            ClewError: _unavailable,
        },
    )


class _Intake:
    def __init__(self, appender: Appender, spool: Path, limits: Limits) -> None:
        self._appender = appender
        self._spool = spool
        self._limits = limits

    def one(self, stream: Stream) -> Callable[[Request], object]:
        """The endpoint for an event of a stream; several, as a list or line by line, are taken, too."""

        async def endpoint(request: Request) -> Response:
            async with self._payload(request) as payload:
                if isinstance(payload, Spooled):
                    return await self._take_large(payload, stream, request)
                return await self._take(payload, stream, request)

        return endpoint

    async def batch(self, request: Request) -> Response:
        """The endpoint for a list of OpenLineage events, with a result for each that failed."""
        async with self._payload(request) as payload:
            if isinstance(payload, Spooled):
                _require_within(_MOST_IN_MEMORY, payload.bytes)
            text = await run_in_threadpool(payload.read) if isinstance(payload, Spooled) else payload
            events = await self._store(text, Stream.OPENLINEAGE, request)
        return Response(msgspec.json.encode(_result(events)), media_type="application/json")

    async def _take_large(self, payload: Spooled, stream: Stream, request: Request) -> Response:
        try:
            flaw = await run_in_threadpool(store_spooled, payload, stream, _source(request), self._appender)
        except RejectedError:
            if payload.bytes > _MOST_IN_MEMORY:
                raise
            # It is several events, maybe.
            return await self._take(await run_in_threadpool(payload.read), stream, request)
        return _created([flaw])

    async def _take(self, payload: bytes, stream: Stream, request: Request) -> Response:
        events = await self._store(payload, stream, request)
        refused = [event.flaw for event in events if event.entry is None and event.flaw is not None]
        if refused:
            raise refused[0] if len(events) == 1 else _some(refused, events)
        return _created([event.flaw for event in events])

    async def _store(self, payload: bytes, stream: Stream, request: Request) -> list[Taken]:
        """Store the events of a payload, durably, but for those that never can be."""
        events = [taken(stream, _source(request), body) for body in bodies_in(payload)]
        entries = [event.entry for event in events if event.entry is not None]
        if entries:
            await _stored(self._appender.store(entries))
        return events

    @asynccontextmanager
    async def _payload(self, request: Request) -> AsyncIterator[bytes | Spooled]:
        """The body, inflated: as bytes, or in a file if it is large."""
        inflating = inflater(request.headers.get("content-encoding", ""))
        held = bytearray()
        with ExitStack() as opened:
            spooled: Spooled | None = None
            async for chunk in _chunks(request):
                for piece in inflating.feed(chunk):
                    held += piece
                    if spooled is None and len(held) > _SPOOL_BYTES:
                        spooled = opened.enter_context(Spooled(self._spool))
                    if spooled is not None:
                        spooled.add(held)
                        held.clear()
                        _require_within(self._limits.body_bytes, spooled.bytes)
            inflating.finish()
            yield bytes(held) if spooled is None else spooled


def _require_within(limit: int, size: int) -> None:
    if size > limit:
        hint = "Send events one by one; the largest body can be set with --max-body-mb."
        raise TooLargeError(f"The body is larger than {limit >> 20} MB.", hint=hint)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    chunks = request.stream().__aiter__()
    while True:
        async with asyncio.timeout(_IDLE_SECONDS):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk


async def _stored(stored: Future[None]) -> None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await asyncio.shield(asyncio.wrap_future(stored))
    except TimeoutError as fault:
        raise OverloadedError("The disk is slow.", hint="Send the event again, in a moment.") from fault


def _result(events: Sequence[Taken]) -> BatchResult:
    failed = [
        FailedEvent(place, str(event.flaw), retriable=False)
        for place, event in enumerate(events)
        if event.entry is None
    ]
    summary = Summary(len(events), len(events) - len(failed), len(failed), 0, len(failed))
    return BatchResult("partial_success" if failed else "success", summary, failed)


def _some(refused: Sequence[RejectedError], events: Sequence[Taken]) -> RejectedError:
    """One for all: the others of the request are stored."""
    first = refused[0]
    place = next(place for place, event in enumerate(events) if event.flaw is first)
    return RejectedError(first.reason, f"event {place} and {len(refused) - 1} more of {len(events)}: {first.detail}")


def _created(flaws: Sequence[RejectedError | None]) -> Response:
    reasons = sorted({flaw.reason.value for flaw in flaws if flaw is not None})
    return Response(status_code=201, headers={_DEAD_LETTER: ", ".join(reasons)} if reasons else None)


def _source(request: Request) -> str:
    return request.headers.get("user-agent", "http")[:200]


def _healthz(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _refusing(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _, error: _sentence(status, str(error))


def _rejected(_: Request, error: Exception) -> Response:
    return _sentence(400, f"This can never be stored: {error}.")


def _overloaded(_: Request, error: Exception) -> Response:
    return _sentence(503, str(error), _COME_BACK)


def _unavailable(_: Request, error: Exception) -> Response:
    _LOG.error("an event could not be stored: %s", error)
    return _sentence(503, str(error), _COME_BACK)


def _slow(_: Request, __: Exception) -> Response:
    return _sentence(408, f"Nothing came for {_IDLE_SECONDS:.0f} seconds.")


def _gone(_: Request, __: Exception) -> Response:
    return _sentence(400, "The body was cut off.")


def _sentence(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"code": status, "message": text}, status, headers)
