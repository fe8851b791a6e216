"""API and collector on one port."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

# POST paths of the collector; GET on the same paths is Marquez's read API.
_COLLECTOR_PATHS = frozenset(
    ("/api/v1/lineage", "/api/v1/lineage/batch", "/api/v1/events/runtime", "/api/v1/events/dataframe")
)


class CollectorDispatch:
    """Passes events and lifespan to the collector, all other requests to the API."""

    def __init__(self, api: ASGIApp, collector: ASGIApp) -> None:
        self._api = api
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch a request."""
        is_event = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in _COLLECTOR_PATHS
        is_collector = is_event or scope["type"] == "lifespan"
        await (self._collector if is_collector else self._api)(scope, receive, send)
