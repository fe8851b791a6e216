"""Authentication by API key or JWT in the Authorization header."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from starlette.concurrency import run_in_threadpool

from clew.serving.grants import ANONYMOUS, Principal, Scope, UnauthenticatedError
from clew.serving.keys import PREFIX, KeyFile
from clew.serving.plain import RequestInfo

TokenVerifier: TypeAlias = Callable[[str], Principal]
# Required on a 401 response (RFC 6750).
CHALLENGE: Final = {"www-authenticate": "Bearer"}


class Authenticator:
    """Authenticates API keys and JWTs; without either, all requests are anonymous."""

    def __init__(self, keys: KeyFile | None = None, tokens: TokenVerifier | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    @property
    def is_synchronous(self) -> bool:
        """True if no I/O is needed: keys are checked locally, tokens may need the identity provider."""
        return self._tokens is None

    async def authenticate(self, request: RequestInfo, scope: Scope) -> Principal:
        """Return the principal of a request; UnauthenticatedError or ForbiddenError if it has no access."""
        if self._tokens is not None and not (secret := _read_credentials(request)).startswith(f"{PREFIX}_"):
            principal = await run_in_threadpool(self._tokens, secret)
            principal.require_scope(scope)
            return principal
        return self.authenticate_key(request, scope)

    def authenticate_key(self, request: RequestInfo, scope: Scope) -> Principal:
        """Authenticate by API key only."""
        if self._keys is None and self._tokens is None:
            return ANONYMOUS
        principal = None if self._keys is None else self._keys.find_principal(_read_credentials(request))
        if principal is None:
            hint = "Check the key, or ask the administrator for a new one."
            raise UnauthenticatedError("The API key is unknown or was revoked.", hint=hint)
        principal.require_scope(scope)
        return principal


def _read_credentials(request: RequestInfo) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise UnauthenticatedError("An API key is required.", hint="Send the header `Authorization: Bearer KEY`.")
    return secret.strip()
