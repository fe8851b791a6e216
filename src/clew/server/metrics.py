"""Prometheus metrics of HTTP servers, without locks: they are updated in the event loop only."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.errors import ClewError
from clew.server.auth import CHALLENGE, Authenticator, ForbiddenError, UnauthenticatedError
from clew.server.auth import Scope as AuthScope
from clew.server.fast_path import GetHandler, RawResponse, RequestInfo
from clew.server.monitoring import ReadinessCheck, always_ready

SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class UnlockedCounter(Collector):
    """Counter by labels."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._counts: dict[tuple[str | int, ...], int] = {}

    def inc(self, labels: tuple[str | int, ...]) -> None:
        """Increment the counter."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metric family."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric([str(label) for label in labels], count)
        yield family


class UnlockedHistogram(Collector):
    """Histogram with fixed bounds."""

    def __init__(self, name: str, documentation: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the metric family."""
        names = [*map(str, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._documentation)
        family.add_metric([], list(zip(names, accumulate(self._counts), strict=True)), self._sum)
        yield family


class ResponseMetrics(Collector):
    """Counts and times the responses of an application."""

    def __init__(self) -> None:
        self._responses = UnlockedCounter("clew_http_responses", "HTTP responses.", ("status",))
        self._seconds = UnlockedHistogram("clew_http_response_seconds", "Response time.", SECONDS_BUCKETS)

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Yield the metric families."""
        yield from self._responses.collect()
        yield from self._seconds.collect()

    def measure(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application."""

        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            # An application that fails sends nothing; uvicorn responds with 500.
            start, status = time.perf_counter(), 500

            async def send_measured(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, send_measured)
            finally:
                self._observe(status, start)

        return measured

    def measure_fast(self, handler: GetHandler | None) -> GetHandler | None:
        """Wrap a handler of the fast path."""
        if handler is None:
            return None

        def measured(request: RequestInfo, url: bytes) -> RawResponse | None:
            start = time.perf_counter()
            response = handler(request, url)
            if response is not None:
                self._observe(response.status, start)
            return response

        return measured

    def _observe(self, status: int, start: float) -> None:
        self._responses.inc((status,))
        self._seconds.observe(time.perf_counter() - start)


def create_registry(*collectors: Collector) -> CollectorRegistry:
    """Create a registry with collectors, and the memory, CPU and file descriptors of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return registry


def monitoring_routes(
    registry: CollectorRegistry, authenticator: Authenticator, check_ready: ReadinessCheck = always_ready
) -> list[Route]:
    """Return the routes `/readyz`, and `/metrics`, which needs the scope `read` if keys are required."""

    def readyz(_: Request) -> Response:
        try:
            check_ready()
        except ClewError as error:
            return PlainTextResponse(f"not ready: {error.message}\n", 503)
        return PlainTextResponse("ready\n")

    async def metrics(request: Request) -> Response:
        try:
            await authenticator.authenticate(request, AuthScope.READ)
        except UnauthenticatedError as error:
            return PlainTextResponse(f"{error}\n", 401, CHALLENGE)
        except ForbiddenError as error:
            return PlainTextResponse(f"{error}\n", 403)
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/readyz", readyz), Route("/metrics", metrics)]
