"""Tests of webhooks: body, headers, signature, and which responses are tried again."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
from datetime import UTC, datetime

import pytest
from tests.support.event_receivers import EventReceiver

from clew.errors import UsageError
from clew.query.graph.nodes import Node
from clew.query.notifications import Notification
from clew.watch.webhook import Webhook, sign

NOTIFICATION = Notification(
    "0195", "failed-run", datetime(2026, 3, 1, tzinfo=UTC), "Run failed: shop:load", job=Node("job", "shop", "load")
)


def test_json_body_and_headers() -> None:
    receiver = EventReceiver()
    with receiver.listen() as url:
        assert Webhook(f"{url}/hook?token=1", b"key").post(NOTIFICATION).status == "delivered"
    ((path, body),) = receiver.received
    assert path == "/hook?token=1"
    assert json.loads(body) == {
        "id": "0195",
        "kind": "failed-run",
        "at": "2026-03-01T00:00:00Z",
        "text": "Run failed: shop:load",
        "job": {"kind": "job", "namespace": "shop", "name": "load"},
    }
    (headers,) = receiver.headers
    assert headers["Idempotency-Key"] == "0195"
    assert headers["Content-Type"] == "application/json"
    message = headers["X-Clew-Timestamp"].encode() + b"." + body
    assert headers["X-Clew-Signature"] == "sha256=" + hmac.new(b"key", message, hashlib.sha256).hexdigest()


def test_a_known_signature() -> None:
    """Computed with `printf '1767225600.{}' | openssl dgst -sha256 -hmac secret`."""
    expected = "sha256=fa7eaa06bf97d7815f3f456e97cde70c9e50cb005f01660c8d10b10c21964887"
    assert sign(b"secret", "1767225600", b"{}") == expected


def test_slack_body_and_no_signature_without_a_secret() -> None:
    receiver = EventReceiver()
    with receiver.listen() as url:
        Webhook(url, body_format="slack").post(NOTIFICATION)
    ((path, body),) = receiver.received
    assert (path, json.loads(body)) == ("/", {"text": "Run failed: shop:load"})
    assert "X-Clew-Signature" not in receiver.headers[0]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "delivered"),
        (204, "delivered"),
        (302, "failed"),
        (400, "rejected"),
        (401, "failed"),
        (404, "failed"),
        (413, "rejected"),
        (422, "rejected"),
        (429, "failed"),
        (500, "failed"),
        (503, "failed"),
    ],
)
def test_outcomes(status: int, outcome: str) -> None:
    with EventReceiver(lambda _: status).listen() as url:
        assert Webhook(url).post(NOTIFICATION).status == outcome


def test_an_unreachable_endpoint_is_tried_less_and_less_often() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        webhook = Webhook(f"http://127.0.0.1:{free.getsockname()[1]}/")
        waits = []
        for _ in range(12):
            outcome = webhook.post(NOTIFICATION)
            waits.append(webhook.backoff_seconds)
    assert outcome.status == "failed"
    assert "refused" in outcome.error
    assert waits[:4] == [1, 2, 4, 8]
    assert waits[-1] == 300
    assert not webhook.is_due


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com",
        "https://",
        "http://a:b@example.com",
        "http://x:99999",
        "http://a b",
        "http://a..b",
    ],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(UsageError, match="Invalid webhook URL"):
        Webhook(url)


def test_the_path_is_not_shown() -> None:
    assert str(Webhook("https://hooks.example.com:8443/services/SECRET")) == "https://hooks.example.com:8443"
