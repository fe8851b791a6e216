"""Who is let in: by an API key or a token, sent as `Authorization: Bearer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from starlette.concurrency import run_in_threadpool

from clew.serving.grants import ANYONE, Grant, Scope, UnknownCallerError
from clew.serving.keys import PREFIX, KeyFile
from clew.serving.plain import Caller

GrantOf: TypeAlias = Callable[[str], Grant]
# What a 401 must carry (RFC 6750).
CHALLENGE: Final = {"www-authenticate": "Bearer"}


class Guard:
    """Lets in who has a key, or a token; everyone, if neither is asked for."""

    def __init__(self, keys: KeyFile | None = None, tokens: GrantOf | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    @property
    def is_quick(self) -> bool:
        """Whether nobody has to be asked: keys are known here, tokens may wait for an identity provider."""
        return self._tokens is None

    async def admit(self, caller: Caller, scope: Scope) -> Grant:
        """The grant of whoever calls; UnknownCallerError or NotAllowedError if that is not enough."""
        if self._tokens is not None and not (secret := _bearer(caller)).startswith(f"{PREFIX}_"):
            grant = await run_in_threadpool(self._tokens, secret)
            grant.require(scope)
            return grant
        return self.admit_key(caller, scope)

    def admit_key(self, caller: Caller, scope: Scope) -> Grant:
        """The same of whoever calls with a key."""
        if self._keys is None and self._tokens is None:
            return ANYONE
        grant = None if self._keys is None else self._keys.grant(_bearer(caller))
        if grant is None:
            hint = "Check it, or ask whoever runs clew for a new one."
            raise UnknownCallerError("The key is not known here, or was revoked.", hint=hint)
        grant.require(scope)
        return grant


def _bearer(caller: Caller) -> str:
    kind, _, secret = caller.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret.strip():
        raise UnknownCallerError("A key is needed here.", hint="Send it in the header `Authorization: Bearer KEY`.")
    return secret.strip()
