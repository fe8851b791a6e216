"""Tests of the connection to a Marquez database, of its schema, and of the plan of an import."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.marquez_database import MarquezDatabase, create_database, run_event

from clew.data_dir import DatabaseUrl
from clew.errors import ClewError, UsageError
from clew.importer import marquez_database
from clew.importer.marquez_database import (
    EventPlan,
    ReadPosition,
    connect_marquez,
    database_identity,
    parse_database_url,
    plan_events,
    read_schema,
    sample_events,
)

PROTOCOL_3 = 196_608


def plan(database: MarquezDatabase, position: ReadPosition = ReadPosition()) -> EventPlan:  # noqa: B008
    url = DatabaseUrl(database.url, Path())
    with connect_marquez(url) as connection:
        return plan_events(connection, read_schema(connection, url), position)


@pytest.fixture
def rejecting_server() -> Iterator[int]:
    """Yield the port of a server that rejects each password, as PostgreSQL does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                size, code = struct.unpack("!ii", client.recv(8))
                while code != PROTOCOL_3:
                    # A request for encryption.
                    client.sendall(b"N")
                    size, code = struct.unpack("!ii", client.recv(8))
                client.recv(size)
                client.sendall(b"R" + struct.pack("!ii", 8, 3))
                client.recv(1024)
                text = b'SFATAL\0C28P01\0Mpassword authentication failed for user "marquez"\0\0'
                client.sendall(b"E" + struct.pack("!i", len(text) + 4) + text)

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


def test_a_wrong_password_is_reported_without_it(rejecting_server: int) -> None:
    url = parse_database_url(f"postgresql://marquez:secret@127.0.0.1:{rejecting_server}/marquez")
    with pytest.raises(ClewError, match="password authentication failed for user") as error, connect_marquez(url):
        pass
    assert "secret" not in str(error.value)
    assert "PGPASSWORD" in str(error.value)


def test_an_unreachable_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = parse_database_url(f"postgresql://marquez@127.0.0.1:{port}/marquez")
    with pytest.raises(ClewError, match="Cannot connect to postgresql://marquez@"), connect_marquez(url):
        pass


@pytest.mark.parametrize("text", ["mysql://host/db", "postgresql://host:port/db", "host/db", ""])
def test_malformed_urls_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="malformed"):
        parse_database_url(text)


def test_the_url_of_jdbc_is_accepted() -> None:
    assert parse_database_url("jdbc:postgresql://host:5432/marquez").text == "postgresql://host:5432/marquez"


def test_a_database_without_events_is_rejected(postgres: str) -> None:
    url = DatabaseUrl(create_database(postgres), Path())
    with connect_marquez(url) as connection:
        with pytest.raises(UsageError, match="it has no table lineage_events, and no other"):
            read_schema(connection, url)
        connection.execute("create table orders (id int)")
        with pytest.raises(UsageError, match="it has no table lineage_events, only orders"):
            read_schema(connection, url)
        connection.execute("create table lineage_events (payload text)")
        with pytest.raises(ClewError, match="has no column event, event_time: its version is not supported"):
            read_schema(connection, url)


def test_missing_privileges_are_reported(current: MarquezDatabase) -> None:
    role = f"reader_{abs(hash(current.url))}"
    current.execute(f"create role {role} login")
    url = DatabaseUrl(current.url.replace("postgres:@", f"{role}@").replace("postgres@", f"{role}@"), Path())
    with pytest.raises(ClewError, match="permission denied") as error, connect_marquez(url) as connection:
        sample_events(connection, read_schema_of(current), 1)
    assert "Grant the user SELECT" in str(error.value)


def read_schema_of(database: MarquezDatabase) -> marquez_database.Schema:
    url = DatabaseUrl(database.url, Path())
    with connect_marquez(url) as connection:
        return read_schema(connection, url)


def test_an_empty_table_has_an_empty_plan(marquez: MarquezDatabase) -> None:
    assert plan(marquez) == EventPlan((), None)


def test_ranges_cover_all_rows_once_and_in_order(marquez: MarquezDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marquez_database, "ROWS_PER_CHUNK", 4)
    marquez.store([run_event(number) for number in range(5)], has_received_at=False)
    marquez.store([run_event(number) for number in range(5, 15)])
    ranges = plan(marquez).chunks
    assert sum(item.rows for item in ranges) == 15
    assert [item.number for item in ranges] == list(range(len(ranges)))
    for item in ranges:
        is_older = "and created_at is null" if item.column == "event_time" and "created_at" in columns(marquez) else ""
        query = f"select count(*) from lineage_events where {item.column} >= %s and {item.column} < %s {is_older}"
        assert marquez.execute(query, item.lower, item.upper) == [(item.rows,)]


def columns(database: MarquezDatabase) -> frozenset[str]:
    return read_schema_of(database)["lineage_events"]


def test_equal_times_are_not_split(current: MarquezDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marquez_database, "ROWS_PER_CHUNK", 4)
    current.store([run_event(number) for number in range(10)])
    current.execute("update lineage_events set created_at = '2024-01-01'")
    assert [item.rows for item in plan(current).chunks] == [10]


def test_the_next_plan_starts_a_minute_before_the_newest_row(current: MarquezDatabase) -> None:
    current.store([run_event(number) for number in range(100)])
    first = plan(current)
    assert first.rows == 100
    assert plan(current, ReadPosition(received=first.recent_from)).rows == 61


def test_a_restored_database_has_another_identity(current: MarquezDatabase) -> None:
    url = DatabaseUrl(current.url, Path())
    with connect_marquez(url) as connection:
        identity = database_identity(connection)
        assert identity == database_identity(connection)
        connection.execute("alter table lineage_events rename to old; create table lineage_events (like old)")
        assert identity != database_identity(connection)


def test_samples_are_the_newest_events(marquez: MarquezDatabase) -> None:
    marquez.store([run_event(number) for number in range(5)])
    url = DatabaseUrl(marquez.url, Path())
    with connect_marquez(url) as connection:
        sample = sample_events(connection, read_schema(connection, url), 2)
    assert (sample.rows, len(sample.events)) == (5, 2)
    assert '"job1"' in sample.events[0]
