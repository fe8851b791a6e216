"""Tests of JWT authentication, with real keys and a local identity provider."""

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
from clew.server import jwt_auth as jwt_module
from clew.server.auth import Principal, Scope, UnauthenticatedError
from clew.server.jwt_auth import JwtAuthenticator

ISSUER, AUDIENCE = "https://id.example.org", "clew"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
UNPUBLISHED = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC_KEYS: dict[str, Any] = {
    "rsa": json.loads(RSAAlgorithm.to_jwk(RSA.public_key())),
    "ec": json.loads(ECAlgorithm.to_jwk(EC.public_key())),
    "ed": json.loads(OKPAlgorithm.to_jwk(ED.public_key())),
}


def make_jwks(*names: str) -> str:
    return json.dumps({"keys": [{**PUBLIC_KEYS[name], "kid": name} for name in names]})


def make_token(key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa", **claims: Any) -> str:
    standard = {"sub": "airflow", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "scope": "clew:write"}
    payload = {name: value for name, value in {**standard, **claims}.items() if value is not None}
    return jwt.encode(payload, key, algorithm, {"kid": kid})


@pytest.fixture
def authenticator(tmp_path: Path) -> JwtAuthenticator:
    path = tmp_path / "jwks.json"
    path.write_text(make_jwks("rsa", "ec", "ed"))
    return JwtAuthenticator(str(path), ISSUER, AUDIENCE)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")],
)
def test_accepts_a_token_of_the_issuer(key: Any, algorithm: str, kid: str, authenticator: JwtAuthenticator) -> None:
    assert authenticator(make_token(key, algorithm, kid)) == Principal("'airflow'", frozenset({Scope.WRITE}))


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
def test_claims_determine_scopes_and_namespaces(
    claims: Any, scopes: set[Scope], namespaces: Any, authenticator: JwtAuthenticator
) -> None:
    principal = authenticator(make_token(**claims))
    assert (set(principal.scopes), principal.namespaces) == (scopes, namespaces)


INVALID_TOKENS: dict[str, Callable[[], str]] = {
    "signed by another key": lambda: make_token(UNPUBLISHED),
    "unpublished key": lambda: make_token(UNPUBLISHED, kid="other"),
    "expired": lambda: make_token(exp=time.time() - 60),
    "no expiry": lambda: make_token(exp=None),
    "other issuer": lambda: make_token(iss="https://evil.example.org"),
    "other audience": lambda: make_token(aud="shop"),
    "no audience": lambda: make_token(aud=None),
    "no subject": lambda: make_token(sub=None),
    "namespaces are not a list": lambda: make_token(clew_namespaces="prod"),
    "signed with a shared secret": lambda: make_token("x" * 64, "HS256"),
    "unsigned": lambda: make_token(None, "none"),
    "not a token": lambda: "a.b.c",
    "empty": lambda: "",
}


@pytest.mark.parametrize("build_token", INVALID_TOKENS.values(), ids=INVALID_TOKENS)
def test_rejects_invalid_tokens(build_token: Callable[[], str], authenticator: JwtAuthenticator) -> None:
    with pytest.raises(UnauthenticatedError, match="Invalid token"):
        authenticator(build_token())


@pytest.fixture
def provider() -> Iterator[tuple[str, dict[str, str]]]:
    """URL of a local identity provider, and its published documents by path."""
    published = {"/jwks.json": make_jwks("rsa")}

    class ProviderHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            published["count"] = str(int(published.get("count", "0")) + 1)
            self.send_response(200 if self.path in published else 404)
            self.end_headers()
            self.wfile.write(published.get(self.path, "").encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), ProviderHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", published
        server.shutdown()
        thread.join()


def test_reloads_rotated_keys_of_the_provider(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, published = provider
    authenticator = JwtAuthenticator(f"{address}/jwks.json", ISSUER, AUDIENCE)
    assert authenticator(make_token()).name == "'airflow'"
    published["/jwks.json"] = make_jwks("rsa", "ec")
    for _ in range(3):
        with pytest.raises(UnauthenticatedError, match="key 'ec' is not in the JWKS"):
            authenticator(make_token(EC, "ES256", "ec"))
    assert published["count"] == "1", "unknown key ids must not cause repeated reloads"
    monkeypatch.setattr(jwt_module, "_MIN_RELOAD_SECONDS", 0.0)
    assert authenticator(make_token(EC, "ES256", "ec")).name == "'airflow'"


def test_uses_cached_keys_while_the_provider_is_unavailable(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address, published = provider
    authenticator = JwtAuthenticator(f"{address}/jwks.json", ISSUER, AUDIENCE)
    monkeypatch.setattr(jwt_module, "_MIN_RELOAD_SECONDS", 0.0)
    monkeypatch.setattr(jwt_module, "_MAX_AGE_SECONDS", 0.0)
    document = published.pop("/jwks.json")
    assert authenticator(make_token()).name == "'airflow'"
    with pytest.raises(ClewError, match="Cannot read the JWKS from"):
        authenticator(make_token(EC, "ES256", "ec"))
    published["/jwks.json"] = document
    with pytest.raises(UnauthenticatedError, match="key 'ec' is not in the JWKS"):
        authenticator(make_token(EC, "ES256", "ec"))


def test_fetches_once_per_interval_while_the_provider_is_unavailable(provider: Any) -> None:
    address, published = provider
    authenticator = JwtAuthenticator(f"{address}/jwks.json", ISSUER, AUDIENCE)
    del published["/jwks.json"]
    authenticator._loaded_at -= jwt_module._MIN_RELOAD_SECONDS + 1
    for _ in range(3):
        with pytest.raises(ClewError, match="Cannot read the JWKS from"):
            authenticator(make_token(EC, "ES256", "ec"))
        assert authenticator(make_token()).name == "'airflow'"
    assert published["count"] == "2"


@pytest.mark.parametrize("location", ["{address}/none", "/no/such/file.json", "http://id.example.org/jwks.json"])
def test_reports_an_unreachable_provider_at_startup(location: str, provider: Any) -> None:
    with pytest.raises(ClewError, match=r"Cannot read the JWKS from|Insecure JWKS URL"):
        JwtAuthenticator(location.format(address=provider[0]), ISSUER, AUDIENCE)
