"""Authentication middleware of the API."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from clew.api.problems import problem_response
from clew.errors import ClewError
from clew.serving.grants import ForbiddenError, Principal, Scope, UnauthenticatedError
from clew.serving.guard import CHALLENGE, Authenticator
from clew.serving.plain import RequestInfo
from clew.serving.quick import GetHandler, RawResponse

_READ_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


class AuthMiddleware:
    """Requires authentication for `/api/`; the web UI's static files are public."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on."""
        if connection["type"] == "http" and connection["path"].startswith("/api/"):
            request = Request(connection)
            try:
                await self._authenticate(request)
            except (UnauthenticatedError, ForbiddenError) as error:
                await _error_response(request, error)(connection, receive, send)
                return
        await self._app(connection, receive, send)

    async def _authenticate(self, request: Request) -> None:
        scope = Scope.READ if request.method in _READ_METHODS else Scope.WRITE
        _require_unrestricted(await self._authenticator.authenticate(request, scope))


def authenticated_read(handler: GetHandler, authenticator: Authenticator) -> GetHandler | None:
    """Wrap a fast-path handler; a request without access falls back to the ASGI path, which returns the error."""

    def handle(request: RequestInfo, url: bytes) -> RawResponse | None:
        try:
            _require_unrestricted(authenticator.authenticate_key(request, Scope.READ))
        except (UnauthenticatedError, ForbiddenError):
            return None
        return handler(request, url)

    return handle if authenticator.is_synchronous else None


def _require_unrestricted(principal: Principal) -> None:
    # Lineage crosses namespaces, so a response cannot be limited to one.
    if not principal.is_unrestricted:
        hint = "Ask the administrator for a key without --namespace."
        raise ForbiddenError(
            f"{principal.name} is limited to namespaces; the API needs an unrestricted key.", hint=hint
        )


def _error_response(request: Request, error: ClewError) -> ASGIApp:
    is_unauthenticated = isinstance(error, UnauthenticatedError)
    response = problem_response(request, 401 if is_unauthenticated else 403, error.message, error.hint or "")
    if is_unauthenticated:
        response.headers.update(CHALLENGE)
    return response
