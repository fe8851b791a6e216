"""JSON Web Tokens of an identity provider, checked by the keys that it publishes (JWKS)."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import jwt
import msgspec

from clew.errors import ClewError, UsageError
from clew.serving.grants import Grant, Scope, UnknownCallerError

_LOG = logging.getLogger(__name__)
# Signed by a private key: with a shared secret, whoever can check a token could make one.
_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_SCOPE_PREFIX: Final = "clew:"
_NAMESPACES: Final = "clew_namespaces"
_FETCH_SECONDS = 5.0
# Keys are looked for anew after the first, and if a token names an unknown one, no sooner than after the second.
_FRESH_SECONDS = 600.0
_SECONDS_BETWEEN = 10.0
_LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Tokens:
    """Lets in who has a token of an issuer that was made for an audience: `tokens(text)` gives the grant."""

    def __init__(self, jwks: str, issuer: str, audience: str) -> None:
        self._place = jwks
        self._issuer = issuer
        self._audience = audience
        self._loading = threading.Lock()
        self._keys = _load(jwks)
        self._loaded_at = time.monotonic()
        self._fault: ClewError | None = None

    def __call__(self, token: str) -> Grant:
        """What a token allows; may wait for the identity provider."""
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
        except jwt.PyJWTError as fault:
            raise UnknownCallerError(f"The token is not accepted: {fault}.", hint="Ask for a new one.") from fault
        return Grant(f"{claims['sub']!r}", _scopes(claims), _namespaces(claims))

    def _key(self, kid: str | None) -> jwt.PyJWK:
        age = time.monotonic() - self._loaded_at
        if age > _FRESH_SECONDS or (kid not in self._keys and age > _SECONDS_BETWEEN):
            self._load_again()
        if kid in self._keys:
            return self._keys[kid]
        if self._fault is not None:
            # It may be a new one: whoever has it must not be taken for someone else.
            raise self._fault
        raise jwt.InvalidKeyError(f"its key {kid!r} is not among those of the issuer")

    def _load_again(self) -> None:
        with self._loading:
            if time.monotonic() - self._loaded_at <= _SECONDS_BETWEEN:
                return
            self._loaded_at = time.monotonic()
            try:
                self._keys, self._fault = _load(self._place), None
            except ClewError as fault:
                # Those that are known go on to be good.
                self._fault = fault
                _LOG.warning("%s", fault)


def _load(place: str) -> dict[str | None, jwt.PyJWK]:
    try:
        found = jwt.PyJWKSet.from_json(_text(place))
    except (OSError, URLError, ValueError, jwt.PyJWTError) as fault:
        message = f"The keys of the identity provider cannot be read from {place}: {fault}."
        raise ClewError(message, hint="Name a file or URL of a JSON Web Key Set with --jwks.") from fault
    return {key.key_id: key for key in found.keys}


def _text(place: str) -> str:
    url = urlsplit(place)
    if url.scheme not in {"http", "https"}:
        return Path(place).read_text(encoding="utf-8")
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        raise UsageError(f"Whoever is between here and {place} could give keys of their own.", hint="Use https.")
    with urlopen(place, timeout=_FETCH_SECONDS) as answer:  # noqa: S310  # the scheme is one of two
        body: bytes = answer.read()
    return body.decode()


def _scopes(claims: dict[str, Any]) -> frozenset[Scope]:
    """`scope` is one text (RFC 8693); some providers give a list, and name it `scp`."""
    said = claims.get("scope", claims.get("scp", ""))
    words = said.split() if isinstance(said, str) else said
    known = {f"{_SCOPE_PREFIX}{scope.value}": scope for scope in Scope}
    return frozenset(known[word] for word in words if word in known)


def _namespaces(claims: dict[str, Any]) -> tuple[str, ...]:
    try:
        return msgspec.convert(claims.get(_NAMESPACES, ()), tuple[str, ...])
    except msgspec.ValidationError as fault:
        raise UnknownCallerError(f"The token is not accepted: {_NAMESPACES} is no list of texts.") from fault
