"""The watcher: reads changes of the index, stores them, and delivers them to sinks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from threading import Event, Thread
from typing import Final, Self

from clew.data_dir import DataDir
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.connection import IndexVersion
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.notifications import (
    Notification,
    NotificationKind,
    Positions,
    find_notifications,
    list_declared_schema_changes,
)
from clew.watch.options import WatchOptions
from clew.watch.store import OutboxItem, WatchStore
from clew.watch.webhook import Webhook

# Backpressure: with more notifications in the outbox, no changes are read.
MAX_PENDING: Final = 10_000
_POLL_SECONDS = 1.0
# Searching for changes takes at most this share of the time.
_MAX_LOAD = 0.1
_ITEMS_PER_PASS = 100
# With --once, a webhook is tried this often before the command ends with an error.
_MAX_ATTEMPTS_ONCE = 4
# An attempt may fail because of the endpoint rather than the notification.
_MAX_REJECTIONS = 3
_LINES = "lines"
_BEFORE_FIRST: Final = Positions(-1, -1)


class Watcher:
    """Reports changes of an index that are not reported yet. Used as a context manager.

    `print_line` receives each notification; without it, there are only webhooks. `warn` receives messages on problems.
    """

    def __init__(
        self,
        home: DataDir,
        options: WatchOptions,
        print_line: Callable[[Notification], None] | None,
        warn: Callable[[str], None],
    ) -> None:
        self._options, self._print_line, self._warn = options, print_line, warn
        self._store = WatchStore(options.path(home))
        self._home = home
        self._resources: QueryResources | None = None
        self._checked: tuple[IndexVersion, bool] | None = None
        self._webhooks = {webhook.key: webhook for webhook in options.webhooks}
        self._sinks = (*([] if print_line is None else [_LINES]), *self._webhooks)
        self._last_warning = ""
        # For metrics.
        self.delivered: Counter[NotificationKind] = Counter()
        self.failed_attempts = 0
        self.last_error: str | None = None

    def __enter__(self) -> Self:
        self._store.__enter__()
        removed = self._store.remove_other_sinks(self._sinks)
        if removed:
            self._warn(f"Removed {removed} pending notifications for webhooks that are not used any more.")
        return self

    def __exit__(self, *_: object) -> None:
        self._close_resources()
        self._store.__exit__()

    @property
    def pending(self) -> int:
        """Number of notifications that are not delivered."""
        return self._store.count_pending()

    @property
    def rejected(self) -> int:
        """Number of notifications that webhooks rejected."""
        return self._store.count_rejected()

    def run(self, stop: Event) -> None:
        """Report changes until stopped."""
        while not stop.is_set():
            seconds = self._poll_reporting_errors()
            self.deliver()
            stop.wait(max(_POLL_SECONDS, seconds / _MAX_LOAD))

    def run_once(self, stop: Event) -> bool:
        """Report the changes so far; return False if some could not be delivered."""
        self._poll()
        for _ in range(_MAX_ATTEMPTS_ONCE):
            # More than one pass, if there are many.
            while self.deliver():
                pass
            waits = [webhook.not_before for key, webhook in self._webhooks.items() if self._has_pending(key)]
            if not waits or stop.is_set():
                break
            stop.wait(max(0.0, min(waits) - time.monotonic()))
        return self.pending == 0

    def _has_pending(self, sink: str) -> bool:
        return next(self._store.pending(sink, 1), None) is not None

    def _poll_reporting_errors(self) -> float:
        """Poll, and return the duration in seconds. An index that cannot be read is tried again."""
        started = time.monotonic()
        try:
            self._poll()
            self.last_error = None
        except Exception as error:  # noqa: BLE001  # an error must not end the watcher of a server
            self._close_resources()
            self.last_error = next(iter(str(error).splitlines()), type(error).__name__)
            self._warn_once(f"Cannot read the index: {self.last_error} It is tried again.")
        return time.monotonic() - started

    def _poll(self) -> None:
        """Read the changes since the stored position, and store them with the new position."""
        if self._store.count_pending() >= MAX_PENDING:
            self._warn_once(f"{MAX_PENDING:,} notifications are pending; changes are read once they are delivered.")
            return
        if self._resources is None:
            self._resources = QueryResources(self._home.index, self._home.lake, use_lazy_graphs=True)
        try:
            with self._resources.reader() as index:
                version = index.version()
                if self._checked is None or self._checked != (version, False):
                    is_pending = self._resources.check_pending_backfill(index)
                    self._read_changes(self._resources, index, version, is_pending=is_pending)
                    self._checked = version, is_pending
        except MissingIndexError:
            self._start_without_index()

    def _start_without_index(self) -> None:
        """Start at the beginning: everything that the first index will contain is new."""
        if self._store.positions is None:
            self._store.add((), (), _BEFORE_FIRST)
            self._warn("There is no index yet. Waiting for `clew pipeline run`, `stream` or `clew up`.")

    def _read_changes(
        self, resources: QueryResources, index: IndexReader, version: IndexVersion, *, is_pending: bool
    ) -> None:
        stored, current = self._store.positions, version.indexed_seq
        if stored is None and self._options.since is None:
            self._store.add((), (), Positions(current, current), list_declared_schema_changes(index))
            return
        after = stored or _BEFORE_FIRST
        # An index restored from a backup ends before the stored position. Reported changes are known by their ids.
        after = Positions(min(after.events, current), min(after.facets, current))
        known: list[str] = []

        def is_known(notification_id: str) -> bool:
            is_reported = self._store.is_reported(notification_id)
            if is_reported:
                # Stored again, so that it is remembered longer.
                known.append(notification_id)
            return is_reported

        found = find_notifications(resources, index, self._options.kinds, after, is_known)
        since = self._options.since if stored is None else None
        included = [item for item in found if self._options.is_included(item) and _is_since(item, since)]
        included_ids = {item.id for item in included}
        known += [item.id for item in found if item.id not in included_ids]
        # Facets of raw-only events arrive with a backfill, at positions that were read.
        positions = Positions(current, after.facets if is_pending else current)
        self._store.add(included, self._sinks, positions, known)

    def deliver(self) -> int:
        """Deliver pending notifications to all sinks that may be tried now; return how many were delivered."""
        count = 0
        if self._print_line is not None:
            for item in self._store.pending(_LINES, _ITEMS_PER_PASS):
                self._print_line(item.notification)
                self._store.mark_delivered([item])
                self._count(item)
                count += 1
        for key, webhook in self._webhooks.items():
            count += self._post_pending(key, webhook)
        return count

    def _post_pending(self, key: str, webhook: Webhook) -> int:
        count = 0
        if not webhook.is_due:
            return 0
        for item in self._store.pending(key, _ITEMS_PER_PASS):
            outcome = webhook.post(item.notification)
            if outcome.status == "delivered":
                self._store.mark_delivered([item])
                self._count(item)
                count += 1
                continue
            self.failed_attempts += 1
            if outcome.status == "rejected" and item.attempts + 1 >= _MAX_REJECTIONS:
                self._store.reject(key, item, outcome.error)
                self._warn(f"The webhook {webhook} rejected notification {item.notification.id}: {outcome.error}.")
                continue
            self._store.count_attempt(item)
            if outcome.status == "failed":
                self._warn_once(f"The webhook {webhook} cannot be reached: {outcome.error}. It is tried again.")
            break
        return count

    def _count(self, item: OutboxItem) -> None:
        self.delivered[item.notification.kind] += 1
        self._last_warning = ""

    def _warn_once(self, message: str) -> None:
        """Report a problem, unless it was the last one reported."""
        if message != self._last_warning:
            self._last_warning = message
            self._warn(message)

    def _close_resources(self) -> None:
        if self._resources is not None:
            self._resources.close()
        self._resources = self._checked = None


def _is_since(notification: Notification, since: datetime | None) -> bool:
    return since is None or notification.at is None or notification.at >= since


class BackgroundWatcher:
    """Runs a watcher in a thread beside a server. Used as a context manager."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self._stop = Event()
        self._thread = Thread(target=watcher.run, args=(self._stop,), name="clew-watch", daemon=True)

    def __enter__(self) -> Self:
        self.watcher.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # A POST that is running ends within its timeout.
        self._thread.join()
        self.watcher.__exit__()
