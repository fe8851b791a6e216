"""Endpoint wrapper: turns errors into responses and records metrics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.collector.answers import HANDLED_ERRORS, error_response, ingest_response
from clew.collector.metrics import CollectorMetrics
from clew.collector.payloads import IngestResult
from clew.collector.refusals import ThrottledErrorLog
from clew.serving.plain import RequestInfo
from clew.serving.quick import RawResponse, raw_response

RequestHandler: TypeAlias = Callable[[Request], Awaitable[Response]]
# Receives the result of each event, or the error of the request.
OnComplete: TypeAlias = Callable[[Sequence[IngestResult], Exception | None], None]
StartIngest: TypeAlias = Callable[[RequestInfo, bytes, OnComplete], None]


class CollectorEndpoint:
    """ASGI endpoint; with `start_ingest` it also handles small requests without ASGI."""

    def __init__(
        self,
        path: str,
        handler: RequestHandler,
        start_ingest: StartIngest | None,
        metrics: CollectorMetrics,
        error_log: ThrottledErrorLog,
    ) -> None:
        self.path = path
        self._handler = handler
        self._start_ingest = start_ingest
        self._metrics = metrics
        self._error_log = error_log

    @property
    def has_fast_path(self) -> bool:
        """True if small requests can be passed to `handle_fast`."""
        return self._start_ingest is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        start = time.perf_counter()
        request = Request(scope, receive)
        try:
            response = await self._handler(request)
        except HANDLED_ERRORS as error:
            response = self._error_response(request, error)
        self._observe(response, start)
        await response(scope, receive, send)

    def handle_fast(self, request: RequestInfo, body: bytes, send: Callable[[RawResponse], None]) -> None:
        """Handle a request with a complete body on the fast path."""
        start = time.perf_counter()

        def on_complete(results: Sequence[IngestResult], error: Exception | None) -> None:
            try:
                response = ingest_response(results) if error is None else self._error_response(request, error)
            except HANDLED_ERRORS as rejection:
                response = self._error_response(request, rejection)
            self._observe(response, start)
            send(raw_response(response))

        try:
            if self._start_ingest is not None:
                self._start_ingest(request, body, on_complete)
        except Exception as error:  # noqa: BLE001  # reported to the client
            on_complete((), error)

    def _error_response(self, request: RequestInfo, error: Exception) -> Response:
        response = error_response(error)
        self._error_log.record(self.path, request, response.status_code, error)
        return response

    def _observe(self, response: Response, start: float) -> None:
        self._metrics.observe_response(self.path, response.status_code, time.perf_counter() - start)
