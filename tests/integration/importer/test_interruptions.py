"""Tests of `clew import marquez` as a process: killed in the middle, with lost connections, and repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from tests.support.marquez_database import MarquezDatabase, create_database

from clew.data_dir import DataDir
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.importer.marquez_database import ROWS_PER_CHUNK

ROWS = 10 * ROWS_PER_CHUNK
# Events of 1 KB, one per second.
_FILL = """insert into lineage_events (event_time, event, event_type, job_name, job_namespace, run_uuid, created_at,
        _event_type)
    select at, jsonb_build_object('eventTime', at, 'eventType', 'COMPLETE', 'producer', 'p', 'text', repeat('x', 800),
        'run', jsonb_build_object('runId', run, 'facets', jsonb_build_object()),
        'job', jsonb_build_object('namespace', 'n', 'name', 'j' || mod(number, 50))),
        'COMPLETE', 'j' || mod(number, 50), 'n', run, at, 'RUN_EVENT'
    from (select number, timestamptz '2026-01-01Z' + number * interval '1 second' as at, gen_random_uuid() as run
        from generate_series(1, %s) as number) as numbered"""
_DISCONNECT = """select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and query ilike 'copy%%' and pid <> pg_backend_pid()"""


@pytest.fixture
def database(postgres: str) -> MarquezDatabase:
    database = MarquezDatabase(create_database(postgres))
    database.execute(_FILL, ROWS)
    return database


def start_import(database: MarquezDatabase, home: DataDir, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clew", "import", "marquez", database.url, "--home", str(home.root), "--json"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, "--no-ingest", *options], stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def finish(process: subprocess.Popen[str]) -> Any:
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return json.loads(output)


def imported_rows(home: DataDir) -> int:
    """Return the rows that the state of the import has."""
    try:
        (state,) = (home.root / "imports").glob("*.json")
        return int(json.loads(state.read_bytes())["events"])
    except (ValueError, KeyError):
        return 0


def logged_times(home: DataDir) -> list[str]:
    """Return the times of the events of the log, in its order."""
    end = end_position(home.log)
    records = (decode_record(line) for part in split_ranges(home.log, 0, end, end) for _, line in read_lines(part))
    return [event["eventTime"] for event in (json.loads(record.body) for record in records) if "run" in event]


def test_a_killed_import_continues_where_it_was(database: MarquezDatabase, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home")
    with start_import(database, home) as process:
        while imported_rows(home) == 0 and process.poll() is None:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
    before = imported_rows(home)
    assert 0 < before < ROWS
    result = finish(start_import(database, home))
    # Events of the last minute before the kill may be read again, and are known.
    assert 0 < result["events"] <= ROWS - before
    times = logged_times(home)
    # A range that was appended just before the kill is appended again; the pipeline stores it once.
    assert len(set(times)) == ROWS
    assert len(times) <= ROWS + ROWS_PER_CHUNK
    assert finish(start_import(database, home))["events"] == 0


def test_lost_connections_are_opened_again(database: MarquezDatabase, tmp_path: Path) -> None:
    home, stopped, lost = DataDir(tmp_path / "home"), Event(), list[int]()

    def disconnect() -> None:
        with psycopg.connect(database.url, autocommit=True) as connection:
            # Twice: a range that fails four times ends the import.
            while not stopped.wait(0.01) and sum(lost) < 2:
                ((count,),) = connection.execute(_DISCONNECT).fetchall()
                lost.append(count)

    thread = Thread(target=disconnect)
    thread.start()
    try:
        result = finish(start_import(database, home))
    finally:
        stopped.set()
        thread.join()
    assert sum(lost) > 0
    assert result["events"] == ROWS
    times = logged_times(home)
    assert times == sorted(times)
    assert len(times) == len(set(times)) == ROWS
