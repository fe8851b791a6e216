"""State of a watcher: its position in the log, and an outbox of notifications that are not delivered yet."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import msgspec

from clew.data_dir import create_private_folder
from clew.errors import ClewError
from clew.query.notifications import Notification, Positions

_SCHEMA = """
create table if not exists meta (key text primary key, value text not null) without rowid;
-- Ids of reported changes: late events can bring a change back.
create table if not exists reported (id text primary key, seen_at real not null) without rowid;
create table if not exists outbox (
    number integer primary key autoincrement, sink text not null, body blob not null,
    attempts integer not null default 0
);
create index if not exists outbox_by_sink on outbox (sink, number);
-- Notifications that a webhook rejected.
create table if not exists rejected (sink text not null, body blob not null, error text not null, at real not null);
"""
_BODY_TABLES: Final = ("outbox", "rejected")
_MAX_AGE_SECONDS: Final = 90 * 86_400.0
# Seconds to wait for another watcher to end.
_BUSY_SECONDS = 0.5
_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Notification).decode


class OutboxItem(NamedTuple):
    """A notification to deliver to a sink, and the number of failed attempts."""

    number: int
    notification: Notification
    body: bytes
    attempts: int


class WatchStore:
    """State of one watcher. Changes and the position are stored in one transaction, so that none is lost or repeated.

    Used as a context manager, by one process at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        try:
            create_private_folder(self.path.parent)
            # A server opens it in one thread and uses it in another.
            self._database = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise ClewError(f"Cannot open {self.path}: {error}.", hint="Check the owner of the folder.") from error
        try:
            # Held until the store is closed: two watchers would deliver the same notifications.
            self._database.execute("pragma locking_mode = exclusive")
            self._database.execute("begin exclusive")
            self._database.execute("commit")
            self._database.executescript(_SCHEMA)
        except sqlite3.Error as error:
            self._database.close()
            raise _open_error(self.path, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def positions(self) -> Positions | None:
        """The positions up to which changes were read; None for a new watcher."""
        values = dict(self._database.execute("select key, value from meta"))
        return Positions(int(values["events"]), int(values["facets"])) if "events" in values else None

    def is_reported(self, notification_id: str) -> bool:
        """Return whether a change was stored before."""
        return bool(self._database.execute("select 1 from reported where id = ?", (notification_id,)).fetchone())

    def add(
        self,
        notifications: Sequence[Notification],
        sinks: Collection[str],
        positions: Positions,
        known: Collection[str] = (),
    ) -> None:
        """Store notifications for each sink, and the position up to which changes were read.

        `known` are the ids of changes that were found as well, and are not to be reported.
        """
        bodies = [_encode(notification) for notification in notifications]
        with self._transaction():
            self._add_reported([*known, *(notification.id for notification in notifications)])
            self._database.executemany(
                "insert into outbox (sink, body) values (?, ?)", ((sink, body) for body in bodies for sink in sinks)
            )
            self._set_positions(positions)

    def pending(self, sink: str, limit: int) -> Iterator[OutboxItem]:
        """Yield the oldest notifications for a sink."""
        query = "select number, body, attempts from outbox where sink = ? order by number limit ?"
        for number, body, attempts in self._database.execute(query, (sink, limit)).fetchall():
            yield OutboxItem(number, _decode(body), body, attempts)

    def count_pending(self) -> int:
        """Count the notifications that are not delivered."""
        return int(self._database.execute("select count(*) from outbox").fetchone()[0])

    def count_rejected(self) -> int:
        """Count the notifications that webhooks rejected."""
        return int(self._database.execute("select count(*) from rejected").fetchone()[0])

    def mark_delivered(self, items: Collection[OutboxItem]) -> None:
        """Remove delivered notifications from the outbox."""
        with self._transaction():
            self._database.executemany("delete from outbox where number = ?", ((item.number,) for item in items))

    def count_attempt(self, item: OutboxItem) -> None:
        """Record a failed attempt."""
        self._database.execute("update outbox set attempts = attempts + 1 where number = ?", (item.number,))

    def reject(self, sink: str, item: OutboxItem, error: str) -> None:
        """Move a notification that a webhook rejects to the table `rejected`, so that the next ones are delivered."""
        with self._transaction():
            self._database.execute("insert into rejected values (?, ?, ?, ?)", (sink, item.body, error, time.time()))
            self._database.execute("delete from outbox where number = ?", (item.number,))

    def erase(self, is_about: Callable[[bytes], bool]) -> int:
        """Delete what is about an erased entity, and its traces in the file; return the number of notifications."""
        self._database.create_function(
            "is_about", 1, lambda text: is_about(text.encode() if isinstance(text, str) else text)
        )
        self._database.execute("pragma secure_delete = on")
        with self._transaction():
            self._database.execute("delete from reported where is_about(id)")
            deleted = (self._database.execute(f"delete from {name} where is_about(body)") for name in _BODY_TABLES)  # noqa: S608
            return sum(cursor.rowcount for cursor in deleted)

    def remove_other_sinks(self, sinks: Collection[str]) -> int:
        """Remove notifications for sinks that are not configured any more; return their number."""
        parameters = ",".join("?" * len(sinks))
        query = f"delete from outbox where sink not in ({parameters})"  # noqa: S608
        return self._database.execute(query, tuple(sinks)).rowcount

    def _add_reported(self, ids: Collection[str]) -> None:
        now = time.time()
        upsert = "insert into reported values (?, ?) on conflict (id) do update set seen_at = excluded.seen_at"
        self._database.executemany(upsert, ((notification_id, now) for notification_id in ids))
        self._database.execute("delete from reported where seen_at < ?", (now - _MAX_AGE_SECONDS,))

    def _set_positions(self, positions: Positions) -> None:
        upsert = "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value"
        self._database.executemany(upsert, [(key, str(value)) for key, value in positions._asdict().items()])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("begin")
        try:
            yield
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")


def _open_error(path: Path, error: sqlite3.Error) -> ClewError:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
        hint = "Use another name with --name, or stop the other process."
        return ClewError(f"Another process watches with the name {path.stem!r}.", hint=hint)
    return ClewError(f"Cannot read {path}: {error}.", hint="Remove the file to watch from now on.")
