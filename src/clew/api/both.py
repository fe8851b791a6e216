"""The API and the collector on one port."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

# What only the collector takes; Marquez and clew read under the same path.
_TAKEN = frozenset(("/api/v1/lineage", "/api/v1/lineage/batch", "/api/v1/events/runtime", "/api/v1/events/dataframe"))


class Both:
    """Events go to the collector, all else to the API; the collector starts and stops with the server."""

    def __init__(self, api: ASGIApp, collector: ASGIApp) -> None:
        self._api = api
        self._collector = collector

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        is_event = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in _TAKEN
        takes = is_event or scope["type"] == "lifespan"
        await (self._collector if takes else self._api)(scope, receive, send)
