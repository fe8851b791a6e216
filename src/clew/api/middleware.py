"""Authentication middleware and error responses (RFC 9457)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from clew.errors import ClewError, MalformedError, UsageError, is_damaged_file_error
from clew.index.backends.sqlite import DamagedIndexError
from clew.query.names import EmptyIndexError
from clew.server.auth import (
    CHALLENGE,
    COOKIE_PREFIX,
    SESSION_SECONDS,
    Authenticator,
    ForbiddenError,
    Principal,
    RateLimitedError,
    RateLimiter,
    Scope,
    UnauthenticatedError,
)
from clew.server.fast_path import GetHandler, RawResponse, RequestInfo

# Header of an answer without all facets: a backfill is pending, and there are too many events to parse on demand.
TRUNCATED_FACETS: Final = {"clew-facets": "incomplete"}


class Problem(Struct, frozen=True):
    """Problem details (RFC 9457); without a `type`, the status identifies the problem."""

    title: str
    status: int
    detail: str
    instance: str


def problem_response(request: Request, status: int, title: str, detail: str = "") -> Response:
    """Create a problem details response."""
    body = msgspec.json.encode(Problem(title=title, status=status, detail=detail, instance=request.url.path))
    return Response(
        body, status_code=status, media_type="application/problem+json", headers={"cache-control": "no-store"}
    )


def struct_response(value: Struct, *, is_truncated: bool = False) -> Response:
    """Create a response that clients revalidate, since the data changes."""
    headers = {"cache-control": "no-cache", **(TRUNCATED_FACETS if is_truncated else {})}
    return Response(msgspec.json.encode(value), media_type="application/json", headers=headers)


async def on_clew_error(request: Request, error: Any) -> Response:
    """Map a ClewError to 400 (malformed value), 404 (unknown name) or 503."""
    is_missing = isinstance(error, UsageError | EmptyIndexError)
    status = 400 if isinstance(error, MalformedError) else 404 if is_missing else 503
    return problem_response(request, status, error.message, error.hint or "")


async def on_index_error(request: Request, error: Any) -> Response:
    """Map an error of SQLite, such as a damaged file, to 503."""
    return await on_clew_error(request, DamagedIndexError.of(error))


async def on_http_error(request: Request, error: Any) -> Response:
    """Convert an HTTPException of a route or the router."""
    return problem_response(request, error.status_code, error.detail, f"{request.method} {request.url.path}")


async def on_server_error(request: Request, error: Exception) -> Response:
    """Return 500 with the name of the exception, or 503 for a damaged file of the lake; the log has the traceback."""
    if is_damaged_file_error(error):
        detail = "Run `clew doctor` to find damaged files, and `clew doctor --repair` to write them again."
        return problem_response(request, 503, "The lake cannot be read.", detail)
    return problem_response(request, 500, "Internal server error.", f"{type(error).__name__}: see the server log.")


_READ_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


# Each has caches of its part of the index. Tokens may name any number of namespaces.
_MAX_LIMITED_APPS = 16


class LimitedApps:
    """The applications for keys limited to namespaces, by namespaces; the least recently used one is closed first."""

    def __init__(self, build: Callable[[tuple[str, ...]], tuple[ASGIApp, Callable[[], None]]]) -> None:
        self._build = build
        self._apps: OrderedDict[tuple[str, ...], tuple[ASGIApp, Callable[[], None]]] = OrderedDict()

    def get(self, namespaces: tuple[str, ...]) -> ASGIApp:
        """Return the application for namespaces with these prefixes."""
        namespaces = tuple(sorted(set(namespaces)))
        if namespaces not in self._apps:
            self._apps[namespaces] = self._build(namespaces)
        self._apps.move_to_end(namespaces)
        if len(self._apps) > _MAX_LIMITED_APPS:
            _, (_, close) = self._apps.popitem(last=False)
            close()
        return self._apps[namespaces][0]

    def close(self) -> None:
        """Close all applications."""
        for _, close in self._apps.values():
            close()
        self._apps.clear()


class AuthMiddleware:
    """Requires authentication for `/api/`; the web UI's static files are public.

    A key limited to namespaces may read, through an application of its own: `build_limited` builds it.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        build_limited: Callable[[tuple[str, ...]], tuple[ASGIApp, Callable[[], None]]] | None = None,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limited = None if build_limited is None else LimitedApps(build_limited)
        # Of failed logins: keys cannot be guessed, but each attempt costs a hash or a signature.
        self._logins = RateLimiter(_FAILED_LOGINS_PER_SECOND, burst=_MAX_FAILED_LOGINS)
        self._login_handlers = {("POST", "/api/login"): self._log_in, ("POST", "/api/logout"): self._log_out}

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on."""
        if connection["type"] == "http" and connection["path"].startswith("/api/"):
            request = Request(connection, receive)
            try:
                handle = self._login_handlers.get((request.method, connection["path"]))
                app = await (self._choose_app(request) if handle is None else handle(request))
            except ClewError as error:
                app = _error_response(request, error)
            await app(connection, receive, send)
            return
        try:
            await self._app(connection, receive, send)
        finally:
            if connection["type"] == "lifespan":
                self.close()

    def close(self) -> None:
        """Close the applications of limited keys."""
        if self._limited is not None:
            self._limited.close()

    async def _log_in(self, request: Request) -> ASGIApp:
        """Start a session for the API key or JWT of the body, and set its cookie."""
        try:
            key = _decode_login(await _read_login(request)).key
        except msgspec.DecodeError as error:
            return problem_response(request, 400, "The body is not a login.", str(error))
        client = "unknown" if request.client is None else request.client.host
        self._logins.acquire(client)
        principal = await self._authenticator.verify(key)
        self._logins.reset(client)
        principal.require_scope(Scope.READ)
        response = Response(status_code=204, headers={"cache-control": "no-store"})
        _set_cookies(request, response, self._authenticator.sessions.start(key), SESSION_SECONDS)
        return response

    async def _log_out(self, request: Request) -> ASGIApp:
        """End the session."""
        self._authenticator.sessions.end(request)
        response = Response(status_code=204, headers={"cache-control": "no-store"})
        _set_cookies(request, response, "", 0)
        return response

    async def _choose_app(self, request: Request) -> ASGIApp:
        is_read = request.method in _READ_METHODS
        principal = await self._authenticator.authenticate(request, Scope.READ if is_read else Scope.WRITE)
        if is_read and not principal.is_unrestricted and self._limited is not None:
            return self._limited.get(principal.namespaces)
        _require_unrestricted(principal)
        return self._app


class RequireKeyMiddleware:
    """Requires a key with the scope read for all requests of an application that shows everything."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Authenticate a request and pass it on."""
        app = self._app
        if connection["type"] == "http":
            request = Request(connection, receive)
            try:
                _require_unrestricted(await self._authenticator.authenticate(request, Scope.READ))
            except ClewError as error:
                app = _error_response(request, error)
        await app(connection, receive, send)


_MAX_LOGIN_BYTES = 16 << 10
# Ten at once, then twelve a minute, by address.
_MAX_FAILED_LOGINS = 10
_FAILED_LOGINS_PER_SECOND = 0.2
# Tells the page that there is a session; the other cookie is not visible to scripts.
_LOGIN_HINT: Final = "clew-login"


class _Login(Struct):
    key: str


_decode_login = msgspec.json.Decoder(_Login).decode


async def _read_login(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_LOGIN_BYTES:
            return b""
    return body


def _set_cookies(request: Request, response: Response, token: str, seconds: int) -> None:
    # Cookies are shared by all ports of a host: the name keeps the sessions of several servers apart.
    _, port = request.scope.get("server") or ("", 0)
    is_secure = request.url.scheme == "https"
    for name, value, is_http_only in ((f"{COOKIE_PREFIX}{port}", token, True), (_LOGIN_HINT, token and "1", False)):
        response.set_cookie(
            name, value, max_age=seconds, path="/", secure=is_secure, httponly=is_http_only, samesite="strict"
        )


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
    # Annotations have no namespace.
    if not principal.is_unrestricted:
        hint = "Ask the administrator for a key without --namespace."
        raise ForbiddenError(f"{principal.name} is limited to namespaces; this needs an unrestricted key.", hint=hint)


def _error_response(request: Request, error: ClewError) -> ASGIApp:
    if isinstance(error, RateLimitedError):
        response = problem_response(request, 429, error.message, error.hint or "")
        response.headers["retry-after"] = str(error.retry_after)
        return response
    is_unauthenticated = isinstance(error, UnauthenticatedError)
    # Other errors: the key file or the identity provider cannot be read.
    status = 401 if is_unauthenticated else 403 if isinstance(error, ForbiddenError) else 503
    response = problem_response(request, status, error.message, error.hint or "")
    if is_unauthenticated:
        response.headers.update(CHALLENGE)
    return response
