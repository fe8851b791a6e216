"""Authentication and authorization: scopes, API keys, rate limits, sessions."""

from __future__ import annotations

import hmac
import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.requests import cookie_parser

from clew.errors import ClewError, UsageError
from clew.server.fast_path import RequestInfo


class Scope(StrEnum):
    """Permission of a key or token; `admin` includes the others."""

    WRITE = "write"
    READ = "read"
    ADMIN = "admin"


class UnauthenticatedError(ClewError):
    """Missing or invalid credentials (HTTP 401)."""


class ForbiddenError(ClewError):
    """Insufficient permission (HTTP 403)."""


@dataclass(frozen=True)
class Principal:
    """Authenticated client: its scopes and the namespace prefixes that they are limited to (none: all)."""

    name: str
    scopes: frozenset[Scope]
    namespaces: tuple[str, ...] = ()

    @property
    def is_unrestricted(self) -> bool:
        """True if not limited to namespaces."""
        return not self.namespaces

    def require_scope(self, scope: Scope) -> None:
        """Raise ForbiddenError without the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            message = f"{self.name} lacks the scope {scope.value!r}."
            raise ForbiddenError(message, hint="Ask the administrator for a key with this scope.")

    def check_namespaces(self, names: list[str]) -> None:
        """Raise ForbiddenError for a namespace outside the allowed prefixes, or for none."""
        if self.is_unrestricted:
            return
        forbidden = [name for name in names if not name.startswith(self.namespaces)]
        if forbidden or not names:
            what = f"the namespace {forbidden[0]!r}" if forbidden else "events without a namespace"
            allowed = " or ".join(map(repr, self.namespaces))
            message = f"{self.name} may not send {what}: it is limited to namespaces that begin with {allowed}."
            raise ForbiddenError(message, hint="Ask the administrator for a key that includes the namespace.")


# Used where authentication is off.
ANONYMOUS: Final = Principal("anonymous", frozenset({Scope.ADMIN}))


PREFIX: Final = "clew"
# 256 random bits cannot be guessed, so a fast hash is enough; a slow one would cost every request.
_SECRET_BYTES = 32
_ID_BYTES = 4


class ApiKey(Struct, frozen=True):
    """Stored key; `id` is its public part."""

    name: str
    id: str
    hash: str
    scopes: list[Scope]
    namespaces: list[str]
    added_at: str


_FileSignature = tuple[int, int, int]
_decode = msgspec.json.Decoder(list[ApiKey]).decode


class KeyFile:
    """Key file of a data directory. Running servers see changes immediately."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cache: tuple[_FileSignature | None, dict[str, tuple[str, Principal]]] = (None, {})

    def list_keys(self) -> list[ApiKey]:
        """Return all keys in the order they were added."""
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            message = f"Cannot read the API keys in {self._path}: {error}."
            raise ClewError(message, hint="Restore the file, or remove it and add the keys again.") from error

    def add(self, name: str, scopes: Sequence[Scope], namespaces: Sequence[str] = ()) -> str:
        """Create a key, store its hash and return the key, which is not stored."""
        keys = self.list_keys()
        if any(key.name == name for key in keys):
            hint = "Use another name, or revoke that key first."
            raise UsageError(f"A key named {name!r} already exists.", hint=hint)
        key_id = secrets.token_hex(_ID_BYTES)
        key = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write([*keys, ApiKey(name, key_id, _hash_key(key), list(scopes), list(namespaces), now)])
        return key

    def revoke(self, name: str) -> None:
        """Remove a key; it is not accepted any more."""
        keys = self.list_keys()
        remaining = [key for key in keys if key.name != name]
        if len(remaining) == len(keys):
            raise UsageError(f"There is no key named {name!r}.", hint="List the keys with `clew keys list`.")
        self._write(remaining)

    def find_principal(self, key: str) -> Principal | None:
        """Return the principal of a key, or None."""
        key_hash, principal = self._principals().get(_key_id(key), ("", None))
        return principal if hmac.compare_digest(key_hash, _hash_key(key)) else None

    def _principals(self) -> dict[str, tuple[str, Principal]]:
        """Return hash and principal by key id; reload when the file has changed."""
        cached_signature, principals = self._cache
        signature = _file_signature(self._path)
        if signature != cached_signature:
            principals = {
                key.id: (key.hash, Principal(f"The key {key.name!r}", frozenset(key.scopes), tuple(key.namespaces)))
                for key in self.list_keys()
            }
            self._cache = (signature, principals)
        return principals

    def _write(self, keys: Sequence[ApiKey]) -> None:
        text = msgspec.json.format(msgspec.json.encode(keys)) + b"\n"
        temporary = self._path.with_suffix(".tmp")
        try:
            # Readable by the owner only, from its creation on.
            with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise ClewError(f"Cannot write the API keys to {self._path}: {error.strerror}.") from error


def _file_signature(path: Path) -> _FileSignature | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        # Unlike the signature of any file: reading it reports the error.
        return 0, 0, -1
    return status.st_ino, status.st_mtime_ns, status.st_size


def _key_id(key: str) -> str:
    prefix, _, rest = key.partition("_")
    return rest.partition("_")[0] if prefix == PREFIX else ""


def _hash_key(key: str) -> str:
    return sha256(key.encode()).hexdigest()


# Above this number, full buckets are dropped.
_MAX_CLIENTS = 10_000


class RateLimitedError(ClewError):
    """Rate limit exceeded; retry after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, hint=f"Retry in {retry_after} s.")
        self.retry_after = retry_after


class RateLimiter:
    """Token bucket per client; holds at most `burst` requests, or those of one second."""

    def __init__(
        self, per_second: float, clock: Callable[[], float] = time.monotonic, *, burst: float | None = None
    ) -> None:
        self._per_second = per_second
        self._burst = burst or max(1.0, per_second)
        self._clock = clock
        # Tokens and time of the last update, by client.
        self._buckets: dict[str, tuple[float, float]] = {}

    def acquire(self, client: str) -> None:
        """Consume a token; RateLimitedError if there is none."""
        now = self._clock()
        tokens = self._available_tokens(client, now)
        if tokens < 1:
            message = f"{client} sent more than {self._per_second:g} requests per second."
            raise RateLimitedError(message, math.ceil((1 - tokens) / self._per_second))
        self._buckets[client] = (tokens - 1, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets = {
                other: bucket
                for other, bucket in self._buckets.items()
                if self._available_tokens(other, now) < self._burst
            }

    def reset(self, client: str) -> None:
        """Fill the bucket of a client."""
        self._buckets.pop(client, None)

    def _available_tokens(self, client: str, now: float) -> float:
        tokens, updated_at = self._buckets.get(client, (self._burst, now))
        return min(self._burst, tokens + (now - updated_at) * self._per_second)


SESSION_SECONDS: Final = 12 * 3600
_MAX_SESSIONS = 1000
COOKIE_PREFIX: Final = "clew-session-"


class Sessions:
    """Logins of the web UI: random tokens in cookies, and the API key or JWT of each, in memory.

    The key is checked with each request, so that a session ends when it is revoked.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Key and end of each session, by the hash of the token, oldest first.
        self._sessions: dict[str, tuple[str, float]] = {}

    def start(self, key: str) -> str:
        """Start a session and return its token."""
        token, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock()
        active = [session for session in self._sessions.items() if session[1][1] > now]
        self._sessions = dict(active[1 - _MAX_SESSIONS :])
        self._sessions[_hash_key(token)] = key, now + SESSION_SECONDS
        return token

    def find_key(self, request: RequestInfo) -> str | None:
        """Return the key of the session of a request, if there is one."""
        now = self._clock()
        sessions = (self._sessions.get(_hash_key(token)) for token in _read_tokens(request))
        return next((session[0] for session in sessions if session is not None and session[1] > now), None)

    def end(self, request: RequestInfo) -> None:
        """End the session of a request."""
        for token in _read_tokens(request):
            self._sessions.pop(_hash_key(token), None)


def _read_tokens(request: RequestInfo) -> list[str]:
    cookies = cookie_parser(request.headers.get("cookie", ""))
    return [token for name, token in cookies.items() if name.startswith(COOKIE_PREFIX)]


TokenVerifier: TypeAlias = Callable[[str], Principal]
_ORIGIN_HEADERS: Final = frozenset(("origin", "sec-fetch-site"))
# Required on a 401 response (RFC 6750).
CHALLENGE: Final = {"www-authenticate": "Bearer"}


class Authenticator:
    """Authenticates API keys and JWTs, of the request or of its session; without either, all requests are anonymous."""

    def __init__(self, keys: KeyFile | None = None, tokens: TokenVerifier | None = None) -> None:
        self._keys = keys
        self._tokens = tokens
        self.sessions = Sessions()

    @property
    def is_synchronous(self) -> bool:
        """True if no I/O is needed: keys are checked locally, tokens may need the identity provider."""
        return self._tokens is None

    async def authenticate(self, request: RequestInfo, scope: Scope) -> Principal:
        """Return the principal of a request; UnauthenticatedError or ForbiddenError if it has no access."""
        if self._is_open:
            return ANONYMOUS
        principal = await self.verify(self._read_credentials(request, scope))
        principal.require_scope(scope)
        return principal

    def authenticate_key(self, request: RequestInfo, scope: Scope) -> Principal:
        """Authenticate by API key only."""
        if self._is_open:
            return ANONYMOUS
        principal = self._verify_key(self._read_credentials(request, scope))
        principal.require_scope(scope)
        return principal

    async def verify(self, secret: str) -> Principal:
        """Return the principal of an API key or JWT."""
        if self._tokens is not None and not secret.startswith(f"{PREFIX}_"):
            return await run_in_threadpool(self._tokens, secret)
        return self._verify_key(secret)

    @property
    def _is_open(self) -> bool:
        return self._keys is None and self._tokens is None

    def _verify_key(self, secret: str) -> Principal:
        principal = None if self._keys is None else self._keys.find_principal(secret)
        if principal is None:
            hint = "Check the key, or ask the administrator for a new one."
            raise UnauthenticatedError("The API key is unknown or was revoked.", hint=hint)
        return principal

    def _read_credentials(self, request: RequestInfo, scope: Scope) -> str:
        """Return the key or JWT of a request: of its header, or of its session."""
        if "authorization" not in request.headers and (secret := self.sessions.find_key(request)) is not None:
            # Browsers send one of these with every write; the middleware has checked it.
            if scope is Scope.WRITE and _ORIGIN_HEADERS.isdisjoint(request.headers):
                raise ForbiddenError("A write with a session needs the header Origin.", hint="Send an API key.")
            return secret
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise UnauthenticatedError("An API key is required.", hint="Send the header `Authorization: Bearer KEY`.")
        return secret.strip()
