"""Webhooks: one POST per notification, with an idempotency key and a signature."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
import time
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from clew.errors import UsageError
from clew.query.notifications import Notification

WebhookFormat = Literal["json", "slack"]
_TIMEOUT_SECONDS = 10.0
_MIN_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 300.0
_MAX_RETRY_AFTER_SECONDS = 3600.0
_MAX_RESPONSE_BYTES = 500
# The body is not accepted; others might be.
_REJECTING_STATUSES: Final = frozenset({400, 413, 422})
SIGNATURE_HEADER: Final = "X-Clew-Signature"
TIMESTAMP_HEADER: Final = "X-Clew-Timestamp"
IDEMPOTENCY_HEADER: Final = "Idempotency-Key"


class Outcome(NamedTuple):
    """Result of a POST: delivered, to be retried after `retry_after` seconds (None: backoff), or rejected."""

    status: Literal["delivered", "failed", "rejected"]
    error: str = ""
    retry_after: float | None = None


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a body: `sha256=` and the HMAC-SHA256 of `timestamp.body` in hex."""
    digest = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


@dataclass
class Webhook:
    """An HTTP endpoint that receives notifications.

    `str()` has only its scheme and host: the path of many webhooks is a secret.
    """

    url: str
    secret: bytes | None = None
    body_format: WebhookFormat = "json"
    backoff_seconds: float = field(default=0.0, init=False)
    not_before: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Raise UsageError for a URL that cannot be used."""
        hint = "Use a URL such as https://example.com/hooks/clew."
        try:
            self._parts = urlsplit(self.url)
            has_port = self._parts.port is None or self._parts.port > 0
            # Raises for a name that cannot be resolved, such as `a..b`.
            (self._parts.hostname or "").encode("idna")
        except ValueError as error:
            raise UsageError(f"Invalid webhook URL: {error}.", hint=hint) from error
        is_clean = all(" " < character < "\x7f" for character in self.url)
        if self._parts.scheme not in {"http", "https"} or not self._parts.hostname or not has_port or not is_clean:
            raise UsageError("Invalid webhook URL: it is not an http:// or https:// URL.", hint=hint)
        if self._parts.username or self._parts.password:
            raise UsageError("Invalid webhook URL: it has a user name or password.", hint=hint)

    def __str__(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"

    @property
    def key(self) -> str:
        """Key of the endpoint in the outbox."""
        return hashlib.sha256(f"{self.body_format} {self.url}".encode()).hexdigest()[:16]

    @property
    def is_due(self) -> bool:
        """Whether the endpoint may be tried now."""
        return time.monotonic() >= self.not_before

    def post(self, notification: Notification) -> Outcome:
        """Post a notification once, and compute when to try again."""
        outcome = self._post(notification)
        if outcome.status == "failed":
            doubled = min(max(2 * self.backoff_seconds, _MIN_BACKOFF_SECONDS), _MAX_BACKOFF_SECONDS)
            self.backoff_seconds = doubled
            self.not_before = time.monotonic() + max(doubled, outcome.retry_after or 0)
        else:
            self.backoff_seconds = self.not_before = 0.0
        return outcome

    def _post(self, notification: Notification) -> Outcome:
        body = self._encode(notification)
        connection = _connect(self._parts)
        try:
            path = self._parts.path or "/"
            target = f"{path}?{self._parts.query}" if self._parts.query else path
            connection.request("POST", target, body, self._headers(notification, body))
            response = connection.getresponse()
            content = response.read(_MAX_RESPONSE_BYTES)
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            return Outcome("failed", f"{type(error).__name__}: {error}".rstrip(": "))
        finally:
            connection.close()
        if 200 <= response.status < 300:
            return Outcome("delivered")
        message = f"status {response.status}: {content.decode(errors='replace').strip()}".rstrip(": ")
        if response.status in _REJECTING_STATUSES:
            return Outcome("rejected", message)
        # Redirects are not followed: the signed body would be sent to another host.
        return Outcome("failed", message, _parse_retry_after(response.getheader("Retry-After")))

    def _encode(self, notification: Notification) -> bytes:
        if self.body_format == "slack":
            return msgspec.json.encode({"text": notification.text})
        return msgspec.json.encode(notification)

    def _headers(self, notification: Notification, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "clew",
            IDEMPOTENCY_HEADER: notification.id,
        }
        if self.secret is not None:
            timestamp = str(int(time.time()))
            headers |= {TIMESTAMP_HEADER: timestamp, SIGNATURE_HEADER: sign(self.secret, timestamp, body)}
        return headers


def _connect(parts: SplitResult) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_SECONDS, context=context)


def _parse_retry_after(text: str | None) -> float | None:
    """Parse a number of seconds; dates are ignored."""
    if text is None or not text.strip().isdecimal():
        return None
    return min(float(text), _MAX_RETRY_AFTER_SECONDS)
