"""Tokens, signed with real keys, and a small identity provider that publishes them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from clew.errors import ClewError
from clew.server import jwt_auth as tokens_module
from clew.server.auth import Principal, Scope, UnauthenticatedError
from clew.server.jwt_auth import JwtAuthenticator

ISSUER, AUDIENCE = "https://id.example.org", "clew"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC: dict[str, Any] = {
    "rsa": json.loads(RSAAlgorithm.to_jwk(RSA.public_key())),
    "ec": json.loads(ECAlgorithm.to_jwk(EC.public_key())),
    "ed": json.loads(OKPAlgorithm.to_jwk(ED.public_key())),
}


def jwks(*names: str) -> str:
    return json.dumps({"keys": [{**PUBLIC[name], "kid": name} for name in names]})


def token(key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa", **claims: Any) -> str:
    standard = {"sub": "airflow", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "scope": "clew:write"}
    given = {name: value for name, value in {**standard, **claims}.items() if value is not None}
    return jwt.encode(given, key, algorithm, {"kid": kid})


@pytest.fixture
def tokens(tmp_path: Path) -> JwtAuthenticator:
    path = tmp_path / "jwks.json"
    path.write_text(jwks("rsa", "ec", "ed"))
    return JwtAuthenticator(str(path), ISSUER, AUDIENCE)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")],
)
def test_a_token_of_the_issuer_lets_in(key: Any, algorithm: str, kid: str, tokens: JwtAuthenticator) -> None:
    assert tokens(token(key, algorithm, kid)) == Principal("'airflow'", frozenset({Scope.WRITE}))


@pytest.mark.parametrize(
    ("claims", "scopes", "namespaces"),
    [
        ({"scope": "openid clew:read clew:write"}, {Scope.READ, Scope.WRITE}, ()),
        ({"scope": None, "scp": ["clew:admin"]}, {Scope.ADMIN}, ()),
        ({"scope": "write admin"}, set(), ()),
        ({"scope": None}, set(), ()),
        ({"clew_namespaces": ["prod", "test"]}, {Scope.WRITE}, ("prod", "test")),
    ],
)
def test_claims_say_what_is_allowed(claims: Any, scopes: set[Scope], namespaces: Any, tokens: JwtAuthenticator) -> None:
    grant = tokens(token(**claims))
    assert (set(grant.scopes), grant.namespaces) == (scopes, namespaces)


WRONG: dict[str, Callable[[], str]] = {
    "of another key": lambda: token(OTHER),
    "of a key that is not published": lambda: token(OTHER, kid="other"),
    "expired": lambda: token(exp=time.time() - 60),
    "never expires": lambda: token(exp=None),
    "of another issuer": lambda: token(iss="https://evil.example.org"),
    "for something else": lambda: token(aud="shop"),
    "for nobody": lambda: token(aud=None),
    "of nobody": lambda: token(sub=None),
    "namespaces that are none": lambda: token(clew_namespaces="prod"),
    "signed by a secret": lambda: token("x" * 64, "HS256"),
    "unsigned": lambda: token(None, "none"),
    "no token": lambda: "a.b.c",
    "nothing": lambda: "",
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_any_other_does_not(make: Callable[[], str], tokens: JwtAuthenticator) -> None:
    with pytest.raises(UnauthenticatedError, match="Invalid token"):
        tokens(make())


@pytest.fixture
def provider() -> Iterator[tuple[str, dict[str, str]]]:
    """A server on this machine, and what it publishes."""
    published = {"/jwks.json": jwks("rsa")}

    class Provider(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            published["count"] = str(int(published.get("count", "0")) + 1)
            self.send_response(200 if self.path in published else 404)
            self.end_headers()
            self.wfile.write(published.get(self.path, "").encode())

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", published
        server.shutdown()
        thread.join()


def test_keys_come_from_a_provider_and_may_change(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, published = provider
    tokens = JwtAuthenticator(f"{address}/jwks.json", ISSUER, AUDIENCE)
    assert tokens(token()).name == "'airflow'"
    published["/jwks.json"] = jwks("rsa", "ec")
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="key 'ec' is not in the JWKS"):
            tokens(token(EC, "ES256", "ec"))
    assert published["count"] == "1", "whoever makes up names of keys must not make it ask again and again"
    monkeypatch.setattr(tokens_module, "_MIN_RELOAD_SECONDS", 0.0)
    assert tokens(token(EC, "ES256", "ec")).name == "'airflow'"


def test_a_provider_that_is_away_makes_nobody_unknown(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, published = provider
    tokens = JwtAuthenticator(f"{address}/jwks.json", ISSUER, AUDIENCE)
    monkeypatch.setattr(tokens_module, "_MIN_RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(tokens_module, "_MAX_AGE_SECONDS", 0.0)
    kept = published.pop("/jwks.json")
    assert tokens(token()).name == "'airflow'"
    with pytest.raises(ClewError, match="Cannot read the JWKS from"):
        tokens(token(EC, "ES256", "ec"))
    published["/jwks.json"] = kept
    with pytest.raises(UnauthenticatedError, match="key 'ec' is not in the JWKS"):
        tokens(token(EC, "ES256", "ec"))


@pytest.mark.parametrize("place", ["{address}/none", "/no/such/file.json", "http://id.example.org/jwks.json"])
def test_a_provider_that_cannot_be_asked_is_told_at_once(place: str, provider: Any) -> None:
    with pytest.raises(ClewError, match=r"Cannot read the JWKS from|Insecure JWKS URL"):
        JwtAuthenticator(place.format(address=provider[0]), ISSUER, AUDIENCE)
