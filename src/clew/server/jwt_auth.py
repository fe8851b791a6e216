"""JWT authentication with the keys of an identity provider (JWKS)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import jwt
import msgspec

from clew.errors import ClewError, UsageError
from clew.server.auth import Principal, Scope, UnauthenticatedError
from clew.server.origin_check import LOOPBACK

_LOG = logging.getLogger(__name__)
# Asymmetric only: with a shared secret, a verifier could also issue tokens.
_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_SCOPE_PREFIX: Final = "clew:"
_NAMESPACES: Final = "clew_namespaces"
_FETCH_SECONDS = 5.0
# Keys are reloaded at this age, or for an unknown key id at most once per interval.
_MAX_AGE_SECONDS = 600.0
_MIN_RELOAD_SECONDS = 10.0
_Keys: TypeAlias = dict[str | None, jwt.PyJWK]


class JwtAuthenticator:
    """Callable that verifies a token by issuer and audience and returns its principal."""

    def __init__(self, jwks: str, issuer: str, audience: str) -> None:
        self._load_jwks = _jwks_loader(jwks)
        self._issuer = issuer
        self._audience = audience
        self._loading = threading.Lock()
        self._keys = self._load_jwks()
        self._loaded_at = time.monotonic()
        self._load_error: ClewError | None = None

    def __call__(self, token: str) -> Principal:
        """Return the principal of a token; may fetch keys from the identity provider."""
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._key(kid),
                algorithms=_ALGORITHMS,
                issuer=self._issuer,
                audience=self._audience,
                leeway=30,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(f"Invalid token: {error}.", hint="Request a new token.") from error
        return Principal(f"{claims['sub']!r}", _scopes(claims), _namespaces(claims))

    def _key(self, kid: str | None) -> jwt.PyJWK:
        age = time.monotonic() - self._loaded_at
        if age > _MAX_AGE_SECONDS or (kid not in self._keys and age > _MIN_RELOAD_SECONDS):
            self._reload()
        if kid in self._keys:
            return self._keys[kid]
        if self._load_error is not None:
            # The key may be new: report that keys cannot be loaded instead of an invalid token.
            raise self._load_error
        raise jwt.InvalidKeyError(f"key {kid!r} is not in the JWKS of the issuer")

    def _reload(self) -> None:
        with self._loading:
            if time.monotonic() - self._loaded_at <= _MIN_RELOAD_SECONDS:
                return
            self._loaded_at = time.monotonic()
            try:
                self._keys, self._load_error = self._load_jwks(), None
            except ClewError as error:
                # Loaded keys stay valid.
                self._load_error = error
                _LOG.warning("%s", error)


def _jwks_loader(location: str) -> Callable[[], _Keys]:
    url = urlsplit(location)
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        raise UsageError(f"Insecure JWKS URL {location}: plain http is allowed only for localhost.", hint="Use https.")
    is_url = url.scheme in {"http", "https"}
    # Without the client's cache: it drops the keys that expire while the issuer is unavailable.
    client = jwt.PyJWKClient(location, cache_jwk_set=False, timeout=_FETCH_SECONDS) if is_url else None

    def load() -> _Keys:
        try:
            key_set = client.get_jwk_set() if client else jwt.PyJWKSet.from_json(Path(location).read_text("utf-8"))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            message = f"Cannot read the JWKS from {location}: {error}."
            raise ClewError(message, hint="Pass a JWKS file or URL with --jwks.") from error
        return {key.key_id: key for key in key_set.keys}

    return load


def _scopes(claims: dict[str, Any]) -> frozenset[Scope]:
    """Read `scope`, a string (RFC 8693), or `scp`, which some providers send as a list."""
    claim = claims.get("scope", claims.get("scp", ""))
    values = claim.split() if isinstance(claim, str) else claim
    scopes = {f"{_SCOPE_PREFIX}{scope.value}": scope for scope in Scope}
    return frozenset(scopes[value] for value in values if value in scopes)


def _namespaces(claims: dict[str, Any]) -> tuple[str, ...]:
    try:
        return msgspec.convert(claims.get(_NAMESPACES, ()), tuple[str, ...])
    except msgspec.ValidationError as error:
        raise UnauthenticatedError(f"Invalid token: {_NAMESPACES} is not a list of strings.") from error
