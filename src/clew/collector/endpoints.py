"""An address of the collector: every refusal becomes an answer here, and every answer is counted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from clew.collector.answers import REFUSALS, refusal, result_of
from clew.collector.metrics import Metrics
from clew.collector.payloads import Taken
from clew.collector.refusals import RefusalLog
from clew.serving.plain import Caller
from clew.serving.quick import Reply, reply_of

Work: TypeAlias = Callable[[Request], Awaitable[Response]]
# What became of the events of a request, unless there is a fault.
End: TypeAlias = Callable[[Sequence[Taken], Exception | None], None]
Begin: TypeAlias = Callable[[Caller, bytes, End], None]


class Endpoint:
    """An ASGI application, and with `begin` one that answers small requests without ASGI."""

    def __init__(self, path: str, work: Work, begin: Begin | None, metrics: Metrics, refusals: RefusalLog) -> None:
        self.path = path
        self._work = work
        self._begin = begin
        self._metrics = metrics
        self._refusals = refusals

    @property
    def is_quick(self) -> bool:
        """Whether small requests may go to `answer`."""
        return self._begin is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as ASGI has it."""
        start = time.perf_counter()
        request = Request(scope, receive)
        try:
            response = await self._work(request)
        except REFUSALS as fault:
            response = self._refused(request, fault)
        self._count(response, start)
        await response(scope, receive, send)

    def answer(self, caller: Caller, body: bytes, send: Callable[[Reply], None]) -> None:
        """Answer a request whose body has come."""
        start = time.perf_counter()

        def end(events: Sequence[Taken], fault: Exception | None) -> None:
            try:
                response = result_of(events) if fault is None else self._refused(caller, fault)
            except REFUSALS as refused:
                response = self._refused(caller, refused)
            self._count(response, start)
            send(reply_of(response))

        try:
            if self._begin is not None:
                self._begin(caller, body, end)
        except Exception as fault:  # noqa: BLE001  # who waits for an answer must get one, whatever it is
            end((), fault)

    def _refused(self, caller: Caller, fault: Exception) -> Response:
        response = refusal(fault)
        self._refusals.note(self.path, caller, response.status_code, fault)
        return response

    def _count(self, response: Response, start: float) -> None:
        self._metrics.answered(self.path, response.status_code, time.perf_counter() - start)
