"""Options of a watcher: kinds, namespaces, start and webhooks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from clew.config import parse_age
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.query.notifications import NOTIFICATION_KINDS, Notification, NotificationKind
from clew.watch.webhook import Webhook, WebhookFormat

# Plural names on the command line.
_KINDS_BY_NAME: Final[dict[str, NotificationKind]] = {f"{kind}s": kind for kind in NOTIFICATION_KINDS}
SECRET_VARIABLE: Final = "CLEW_WEBHOOK_SECRET"  # noqa: S105  # the name of a variable
WEBHOOK_VARIABLE: Final = "CLEW_WEBHOOK"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class WatchOptions:
    """What a watcher reports, and where to.

    `since` is for the first start of a watcher: without it, only later changes are reported.
    """

    name: str = "default"
    kinds: tuple[NotificationKind, ...] = NOTIFICATION_KINDS
    namespaces: tuple[str, ...] = ()
    since: datetime | None = None
    webhooks: tuple[Webhook, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for an invalid name."""
        if _NAME.fullmatch(self.name) is None:
            hint = "Use letters, digits and . _ - only, at most 64 characters."
            raise UsageError(f"Invalid name {self.name!r}.", hint=hint)

    def path(self, home: DataDir) -> Path:
        """Return the file with the state of the watcher."""
        return home.root / "watch" / f"{self.name}.sqlite"

    def is_included(self, notification: Notification) -> bool:
        """Return whether a notification is of the namespaces."""
        names = notification.namespaces()
        return not self.namespaces or any(name.startswith(self.namespaces) for name in names)


def parse_kinds(text: str | None) -> tuple[NotificationKind, ...]:
    """Parse kinds separated by commas, such as `failed-runs,schema-changes`; all kinds without a text."""
    if text is None:
        return NOTIFICATION_KINDS
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in _KINDS_BY_NAME]
    if unknown:
        raise UsageError(f"Unknown kind {unknown[0]!r}.", hint=f"Use {', '.join(_KINDS_BY_NAME)}.")
    return tuple(dict.fromkeys(_KINDS_BY_NAME[name] for name in names))


def parse_since(text: str | None, now: datetime | None = None) -> datetime | None:
    """Parse `beginning`, an age such as `30m`, `36h` or `7d`, or an ISO 8601 time, in UTC if it has no offset."""
    if text is None:
        return None
    if text == "beginning":
        return BEGINNING
    age = parse_age(text)
    if age is not None:
        return (now or datetime.now(UTC)) - age
    try:
        since = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "Use an age such as 30m, 36h or 7d, a time such as 2026-03-01T08:00:00Z, or beginning."
        raise UsageError(f"Invalid --since {text!r}.", hint=hint) from error
    return since if since.tzinfo is not None else since.replace(tzinfo=UTC)


def open_webhooks(
    urls: Sequence[str], secret_file: Path | None = None, body_format: WebhookFormat = "json"
) -> tuple[Webhook, ...]:
    """Create webhooks of URLs, or of CLEW_WEBHOOK, with the secret of a file or of CLEW_WEBHOOK_SECRET."""
    in_environment = os.environ.get(WEBHOOK_VARIABLE)
    urls = urls or ([in_environment] if in_environment else [])
    secret = _read_secret(secret_file)
    return tuple(Webhook(url, secret, body_format) for url in dict.fromkeys(urls))


def _read_secret(file: Path | None) -> bytes | None:
    if file is None:
        text = os.environ.get(SECRET_VARIABLE)
        return text.encode() if text else None
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.", hint="Check --webhook-secret-file.") from error
    if not secret:
        raise UsageError(f"{file} is empty.", hint="Write the secret to the file.")
    return secret
