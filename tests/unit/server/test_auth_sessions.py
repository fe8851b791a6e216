"""Tests of sessions: logins of the web UI."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from clew.server.auth import COOKIE_PREFIX, SESSION_SECONDS, Sessions


def request_with(*cookies: str) -> HTTPConnection:
    text = "; ".join(cookies).encode()
    return HTTPConnection({"type": "http", "headers": [(b"cookie", text)] if cookies else []})


def test_a_session_has_a_key_until_it_ends() -> None:
    now = [100.0]
    sessions = Sessions(lambda: now[0])
    token = sessions.start("key")
    request = request_with("other=1", f"{COOKIE_PREFIX}5000={token}")
    assert sessions.find_key(request) == "key"
    now[0] += SESSION_SECONDS
    assert sessions.find_key(request) is None


def test_a_log_out_ends_one_session() -> None:
    sessions = Sessions()
    first, second = (request_with(f"{COOKIE_PREFIX}1={sessions.start(key)}") for key in ("a", "b"))
    sessions.end(first)
    assert (sessions.find_key(first), sessions.find_key(second)) == (None, "b")


def test_tokens_are_random_and_required() -> None:
    sessions = Sessions()
    tokens = {sessions.start("key") for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43
    assert sessions.find_key(request_with()) is None
    assert sessions.find_key(request_with(f"{COOKIE_PREFIX}1=key", f"{COOKIE_PREFIX}2=")) is None
    assert sessions.find_key(request_with(f"session={tokens.pop()}")) is None


def test_the_number_of_sessions_is_bounded() -> None:
    sessions = Sessions()
    oldest = request_with(f"{COOKIE_PREFIX}1={sessions.start('key')}")
    newest = [sessions.start("key") for _ in range(1000)][-1]
    assert sessions.find_key(oldest) is None
    assert sessions.find_key(request_with(f"{COOKIE_PREFIX}1={newest}")) == "key"
