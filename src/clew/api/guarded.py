"""Who may ask, and who may change something by way of the API."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from clew.api.problems import problem
from clew.errors import ClewError
from clew.serving.grants import Grant, NotAllowedError, Scope, UnknownCallerError
from clew.serving.guard import CHALLENGE, Guard
from clew.serving.plain import Caller
from clew.serving.quick import Read, Reply

_READING: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class Guarded:
    """An application whose answers are for callers with a grant; the page itself, which holds nothing, is for all."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if connection["type"] == "http" and connection["path"].startswith("/api/"):
            request = Request(connection)
            try:
                await self._admit(request)
            except (UnknownCallerError, NotAllowedError) as fault:
                await _refusal(request, fault)(connection, receive, send)
                return
        await self._app(connection, receive, send)

    async def _admit(self, request: Request) -> None:
        needed = Scope.READ if request.method in _READING else Scope.WRITE
        _require_everywhere(await self._guard.admit(request, needed))


def guarded_read(read: Read, guard: Guard) -> Read | None:
    """The same for what is answered without ASGI; who is refused hears of it the long way."""

    def admitted(caller: Caller, url: bytes) -> Reply | None:
        try:
            _require_everywhere(guard.admit_key(caller, Scope.READ))
        except (UnknownCallerError, NotAllowedError):
            return None
        return read(caller, url)

    return admitted if guard.is_quick else None


def _require_everywhere(grant: Grant) -> None:
    # Lineage crosses namespaces: an answer cannot stop at the border of one.
    if not grant.is_everywhere:
        hint = "Ask whoever runs clew for a key without --namespace."
        raise NotAllowedError(f"{grant.caller} holds for some namespaces, and answers are about all.", hint=hint)


def _refusal(request: Request, fault: ClewError) -> ASGIApp:
    is_unknown = isinstance(fault, UnknownCallerError)
    response = problem(request, 401 if is_unknown else 403, fault.message, fault.hint or "")
    if is_unknown:
        response.headers.update(CHALLENGE)
    return response
