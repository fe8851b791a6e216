"""Tests of the watcher: nothing is missed or repeated, also with outages, restarts and restored indexes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.support.event_receivers import EventReceiver

import clew.watch.watcher as watcher_module
from clew.data_dir import DataDir
from clew.query.context import QueryResources
from clew.query.notifications import Notification, NotificationKind
from clew.watch.metrics import WatchMetrics
from clew.watch.options import WatchOptions
from clew.watch.watcher import BackgroundWatcher, Watcher
from clew.watch.webhook import Webhook

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


class Watch:
    """Runs watchers of one data directory, and collects their lines and messages."""

    def __init__(self, home: DataDir) -> None:
        self.home = home
        self.lines: list[str] = []
        self.messages: list[str] = []

    def watcher(self, options: WatchOptions | None = None) -> Watcher:
        def print_line(notification: Notification) -> None:
            self.lines.append(notification.text)

        return Watcher(self.home, options or WatchOptions(), print_line, self.messages.append)

    def run_once(self, options: WatchOptions | None = None) -> list[str]:
        """Return the new lines of one run."""
        count = len(self.lines)
        with self.watcher(options) as watcher:
            watcher.run_once(Event())
        return self.lines[count:]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(DataDir(tmp_path))


def fail(scenario: Any, *jobs: str) -> None:
    for job in jobs:
        scenario.run(job, kind="FAIL")
    scenario.index_events()


def failed(*jobs: str) -> list[str]:
    return [f"Run failed: jobs:{job}" for job in jobs]


def test_reports_each_change_once(scenario: Any, watch: Watch) -> None:
    fail(scenario, "before")
    assert watch.run_once() == []
    fail(scenario, "a", "b")
    assert watch.run_once() == failed("a", "b")
    assert watch.run_once() == []
    fail(scenario, "c")
    assert watch.run_once() == failed("c")


def test_watchers_have_their_own_positions(scenario: Any, watch: Watch) -> None:
    fail(scenario, "before")
    for name in ("one", "two"):
        watch.run_once(WatchOptions(name))
    fail(scenario, "a")
    assert watch.run_once(WatchOptions("one")) == watch.run_once(WatchOptions("two")) == failed("a")


def test_everything_in_the_first_index_is_new(scenario: Any, watch: Watch) -> None:
    assert watch.run_once() == []
    assert watch.messages == ["There is no index yet. Waiting for `clew pipeline run`, `stream` or `clew up`."]
    fail(scenario, "a")
    assert watch.run_once() == failed("a")


def test_an_index_that_is_just_being_created(scenario: Any, watch: Watch) -> None:
    """The file of the first index exists before it has tables."""
    watch.home.index_file.touch()
    assert watch.run_once() == []
    fail(scenario, "a")
    assert watch.run_once() == failed("a")


def test_since_is_for_the_first_start(scenario: Any, watch: Watch) -> None:
    fail(scenario, "old", "new")
    since = datetime.fromisoformat(scenario.events[1]["eventTime"])
    assert watch.run_once(WatchOptions(since=since)) == failed("new")
    assert watch.run_once(WatchOptions(since=STARTED)) == []


def test_kinds_and_namespaces(scenario: Any, watch: Watch) -> None:
    watch.run_once()
    fail(scenario, "a")
    kinds: tuple[NotificationKind, ...] = ("failed-assertion",)
    assert watch.run_once(WatchOptions(kinds=kinds)) == []
    fail(scenario, "b")
    assert watch.run_once(WatchOptions(namespaces=("other",))) == []
    fail(scenario, "c")
    assert watch.run_once(WatchOptions(namespaces=("job",))) == failed("c")


def test_a_webhook_that_is_down_gets_everything_later(
    scenario: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.watch.webhook._MIN_BACKOFF_SECONDS", 0.0)
    is_up = False
    receiver = EventReceiver(lambda _: 200 if is_up else 503)
    with receiver.listen() as url:
        options = WatchOptions(webhooks=(Webhook(url),))
        watch.run_once(options)
        fail(scenario, "a", "b")
        # Lines are not delayed, and each start tries again.
        assert watch.run_once(options) == failed("a", "b")
        assert watch.run_once(options) == []
        with watch.watcher(options) as watcher:
            assert not watcher.run_once(Event())
            assert watcher.pending == 2
            is_up = True
            assert watcher.run_once(Event())
        assert len(receiver.received) == 2
        watch.run_once(options)
    assert len(receiver.received) == 2
    keys = [headers["Idempotency-Key"] for headers in receiver.headers]
    # The first notification is repeated until it is accepted, always with its key.
    assert len(set(keys[:-1])) == 1
    assert any("status 503" in message for message in watch.messages)


def test_a_rejected_notification_does_not_block_the_next(scenario: Any, watch: Watch) -> None:
    statuses = [400, 400, 400]
    receiver = EventReceiver(lambda _: statuses.pop() if statuses else 200)
    with receiver.listen() as url:
        options = WatchOptions(webhooks=(Webhook(url),))
        watch.run_once(options)
        fail(scenario, "a", "b")
        with watch.watcher(options) as watcher:
            assert watcher.run_once(Event())
            assert (watcher.rejected, watcher.failed_attempts) == (1, 3)
    assert [b"jobs:b" in body for _, body in receiver.received] == [True]
    assert any("rejected notification" in message for message in watch.messages)


def test_backpressure(scenario: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full outbox, no changes are read, and none is lost."""
    monkeypatch.setattr(watcher_module, "MAX_PENDING", 2)
    monkeypatch.setattr("clew.watch.webhook._MIN_BACKOFF_SECONDS", 0.0)
    is_up = False
    receiver = EventReceiver(lambda _: 200 if is_up else 500)
    with receiver.listen() as url:
        options = WatchOptions(webhooks=(Webhook(url),))
        watch.run_once(options)
        fail(scenario, "a", "b")
        watch.run_once(options)
        fail(scenario, "c")
        assert watch.run_once(options) == []
        assert any("2 notifications are pending" in message for message in watch.messages)
        is_up = True
        watch.run_once(options)
        assert watch.run_once(options) == failed("c")
    assert len(receiver.received) == 3


def test_an_index_restored_from_a_backup(scenario: Any, watch: Watch) -> None:
    """New events get positions that the lost ones had; reported changes are not repeated."""
    watch.run_once()
    fail(scenario, "a")
    backup = watch.home.index_file.read_bytes()
    fail(scenario, "b", "c")
    watch.run_once()
    watch.home.index_file.write_bytes(backup)
    for suffix in ("-wal", "-shm"):
        watch.home.index_file.with_name(f"index.sqlite{suffix}").unlink(missing_ok=True)
    assert watch.run_once() == []
    del scenario.events[1:]
    scenario._indexed_count = 1
    fail(scenario, "d")
    assert watch.run_once() == failed("d")


def test_facets_of_a_backfill_are_found_later(scenario: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facets of raw-only events arrive at positions that were read before."""
    is_pending = True
    monkeypatch.setattr(QueryResources, "check_pending_backfill", lambda *_: is_pending)
    scenario.run("start")
    scenario.index_events()
    watch.run_once()
    scenario.run("check", "orders", kind="FAIL", run="one")
    scenario.index_events()
    assert watch.run_once() == failed("check")
    assert watch.run_once() == []
    # The backfill: the same event, now with its facets.
    results = {"assertions": [{"assertion": "unique", "column": "id", "success": False}]}
    scenario.events[1]["inputs"][0]["facets"] = {"dataQualityAssertions": results}
    scenario._indexed_count = 1
    is_pending = False
    fail(scenario)
    assert watch.run_once() == ["Test failed: unique(id) on db:orders, by jobs:check"]
    assert watch.run_once() == []


def test_repeated_dataset_events_are_no_changes(scenario: Any, watch: Watch) -> None:
    def declare(kind: str) -> None:
        scenario.dataset("orders", schema={"fields": [{"name": "id", "type": kind}]})
        scenario.index_events()

    declare("int")
    declare("text")
    watch.run_once()
    declare("text")
    assert watch.run_once() == []
    declare("uuid")
    assert watch.run_once() == ["Schema change: db:orders: retyped id: text → uuid"]


def test_an_unreadable_index_is_tried_again(scenario: Any, watch: Watch, wait: Callable[..., None]) -> None:
    fail(scenario, "before")
    watch.run_once()
    index = watch.home.index_file
    content = index.read_bytes()
    index.write_bytes(b"damaged" * 2000)
    with BackgroundWatcher(watch.watcher()) as background:
        wait(lambda: background.watcher.last_error)
        index.write_bytes(content)
        fail(scenario, "a")
        wait(lambda: watch.lines)
        wait(lambda: background.watcher.last_error is None)
    assert watch.lines == failed("a")


def test_an_unexpected_error_does_not_end_the_watcher(
    scenario: Any, watch: Watch, wait: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(scenario, "before")
    watch.run_once()
    with monkeypatch.context() as patched, BackgroundWatcher(watch.watcher()) as background:
        patched.setattr(watcher_module, "find_notifications", lambda *_: 1 / 0)
        fail(scenario, "a")
        wait(lambda: background.watcher.last_error == "division by zero")
        patched.undo()
        wait(lambda: watch.lines)
    assert watch.lines == failed("a")


def test_metrics(scenario: Any, watch: Watch) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    fail(scenario, "before")
    with watch.watcher() as watcher:
        metrics, registry = WatchMetrics(watcher), CollectorRegistry()
        registry.register(metrics)
        watcher.run_once(Event())
        fail(scenario, "a")
        watcher.run_once(Event())
        text = generate_latest(registry).decode()
        metrics.check_ready()
    assert 'clew_notifications_total{kind="failed-run"} 1.0' in text
    assert "clew_notifications_pending 0.0" in text


@pytest.fixture
def wait() -> Callable[[Callable[[], Any]], None]:
    """Wait until a condition holds."""
    import time

    def wait_until(condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    return wait_until
