"""Tests of the state of a watcher."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.query.notifications import Notification, Positions
from clew.watch.store import WatchStore

FIRST, SECOND = (Notification(name, "failed-run", datetime(2026, 3, 1, tzinfo=UTC), name) for name in ("a", "b"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "watch" / "default.sqlite"


def test_state_survives_a_restart(path: Path) -> None:
    with WatchStore(path) as store:
        assert store.positions is None
        store.add([FIRST, SECOND], ["lines", "hook"], Positions(7, 5), known=["c"])
        store.mark_delivered(list(store.pending("lines", 10)))
    with WatchStore(path) as store:
        assert store.positions == Positions(7, 5)
        assert list(store.pending("lines", 10)) == []
        assert [item.notification for item in store.pending("hook", 10)] == [FIRST, SECOND]
        assert [store.is_reported(name) for name in "abcd"] == [True, True, True, False]
        assert store.count_pending() == 2


def test_a_failed_transaction_changes_neither_position_nor_outbox(path: Path) -> None:
    with WatchStore(path) as store:
        store.add([], [], Positions(1, 1))
        with pytest.raises(sqlite3.Error):
            store.add([FIRST], [["no text"]], Positions(2, 2))  # type: ignore[list-item]
        assert (store.positions, store.count_pending(), store.is_reported("a")) == (Positions(1, 1), 0, False)


def test_rejected_notifications_are_stored(path: Path) -> None:
    with WatchStore(path) as store:
        store.add([FIRST, SECOND], ["hook"], Positions(1, 1))
        item, *_ = store.pending("hook", 1)
        store.count_attempt(item)
        assert next(store.pending("hook", 1)).attempts == 1
        store.reject("hook", item, "status 400")
        assert [pending.notification for pending in store.pending("hook", 9)] == [SECOND]
        assert store.count_rejected() == 1


def test_notifications_for_other_sinks_are_removed(path: Path) -> None:
    with WatchStore(path) as store:
        store.add([FIRST], ["lines", "old"], Positions(1, 1))
        assert store.remove_other_sinks(["lines"]) == 1
        assert store.remove_other_sinks(["lines"]) == 0
        assert store.count_pending() == 1


def test_one_process_at_a_time(path: Path) -> None:
    with WatchStore(path), pytest.raises(ClewError, match="Another process watches with the name 'default'"):
        WatchStore(path).__enter__()
    with WatchStore(path):
        pass


def test_a_damaged_file(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(ClewError, match="Remove the file to watch from now on"):
        WatchStore(path).__enter__()


def test_erased_notifications_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "watch.sqlite"
    with WatchStore(path) as store:
        database = store._database
        database.execute("insert into outbox (sink, body) values ('s', ?), ('s', ?)", (b'{"d":"secret"}', b'{"d":"x"}'))
        database.execute("insert into rejected values ('s', ?, 'e', 1)", (b'{"d":"secret"}',))
        database.execute("insert into reported values ('drop secret', 1), ('other', 1)")
        assert store.erase(lambda text: b"secret" in text) == 2
        assert (store.count_pending(), store.count_rejected()) == (1, 0)
        assert store.is_reported("other")
    assert b"secret" not in path.read_bytes()
