"""Tests of the options of a watcher."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.query.graph.nodes import Node
from clew.query.notifications import NOTIFICATION_KINDS, Notification
from clew.watch.options import WatchOptions, open_webhooks, parse_kinds, parse_since

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_kinds() -> None:
    assert parse_kinds(None) == NOTIFICATION_KINDS
    assert parse_kinds("failed-runs, breaking-changes,failed-runs") == ("failed-run", "breaking-change")
    with pytest.raises(UsageError, match=r"Unknown kind 'failures'.\nUse failed-runs, failed-assertions, "):
        parse_kinds("failed-runs,failures")
    with pytest.raises(UsageError, match="Unknown kind ''"):
        parse_kinds("")


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("30m", NOW - timedelta(minutes=30)),
        ("36h", NOW - timedelta(hours=36)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T08:00:00Z", datetime(2026, 2, 1, 8, tzinfo=UTC)),
        ("2026-02-01T08:00:00+02:00", datetime(2026, 2, 1, 6, tzinfo=UTC)),
        ("beginning", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_since(text: str, since: datetime) -> None:
    assert parse_since(text, NOW) == since


@pytest.mark.parametrize("text", ["", "soon", "-3d", "3w", "2026-13-01"])
def test_invalid_since(text: str) -> None:
    with pytest.raises(UsageError, match="Invalid --since"):
        parse_since(text)


@pytest.mark.parametrize("name", ["", "../other", "a/b", ".hidden", "x" * 65])
def test_invalid_names(name: str) -> None:
    with pytest.raises(UsageError, match="Invalid name"):
        WatchOptions(name)


@pytest.mark.parametrize(
    ("namespaces", "is_included"), [((), True), (("sho",), True), (("x", "shop"), True), (("x",), False)]
)
def test_namespaces(namespaces: tuple[str, ...], is_included: bool) -> None:
    notification = Notification("1", "failed-run", NOW, "text", job=Node("job", "shop", "load"))
    assert WatchOptions(namespaces=namespaces).is_included(notification) is is_included


def test_webhooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEW_WEBHOOK", raising=False)
    monkeypatch.delenv("CLEW_WEBHOOK_SECRET", raising=False)
    assert open_webhooks([]) == ()
    monkeypatch.setenv("CLEW_WEBHOOK", "https://one.example/x")
    monkeypatch.setenv("CLEW_WEBHOOK_SECRET", "in the environment")
    (webhook,) = open_webhooks([])
    assert (webhook.url, webhook.secret) == ("https://one.example/x", b"in the environment")
    secret = tmp_path / "secret"
    secret.write_text("in a file\n")
    webhooks = open_webhooks(["https://two.example", "https://two.example"], secret, "slack")
    assert [(item.url, item.secret, item.body_format) for item in webhooks] == [
        ("https://two.example", b"in a file", "slack")
    ]


def test_a_secret_file_must_have_a_secret(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Cannot read"):
        open_webhooks(["https://a.example"], tmp_path / "missing")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        open_webhooks(["https://a.example"], tmp_path / "empty")
