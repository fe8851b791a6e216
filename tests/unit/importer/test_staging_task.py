"""Tests of the task that copies rows of a Marquez database to staged segments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.marquez_database import MarquezDatabase, create_database, run_event

from clew.data_dir import DatabaseUrl
from clew.eventlog.segments import LogRecord, decode_record
from clew.events.ids import event_id
from clew.importer.marquez_database import ReadPosition, connect_marquez, plan_events, read_schema
from clew.importer.staging_task import StagedChunk, StagingTask


def stage(database: MarquezDatabase, log: Path, known_ids: tuple[str, ...] = ()) -> list[StagedChunk]:
    url = DatabaseUrl(database.url, Path())
    with connect_marquez(url) as connection:
        plan = plan_events(connection, read_schema(connection, url), ReadPosition())
    task = StagingTask(database.url, str(log), plan.chunks, known_ids, plan.recent_from)
    return [task.stage(chunk) for chunk in plan.chunks]


def records(results: list[StagedChunk]) -> list[LogRecord]:
    assert [result.error for result in results] == [None] * len(results)
    return [
        decode_record(line)
        for result in results
        for path in result.paths
        for line in Path(path).read_bytes().splitlines()
    ]


def test_events_have_the_order_and_time_of_receipt(marquez: MarquezDatabase, tmp_path: Path) -> None:
    events = [run_event(number) for number in (5, 3, 4, 0)]
    marquez.store(events[:2], has_received_at=False)
    marquez.store(events[2:])
    staged = records(stage(marquez, tmp_path))
    has_received = marquez.has_received_at
    by_time = sorted(events, key=lambda item: str(item["eventTime"]))
    expected = [events[1], events[0], *events[2:]] if has_received else by_time
    assert [json.loads(record.body) for record in staged] == expected
    times = [record.at for record in staged]
    assert times[0] == expected[0]["eventTime"].replace("+00:00", ".000000+00:00")
    if has_received:
        assert times[2:] == ["2024-05-06T07:08:12.000000+00:00", "2024-05-06T07:08:13.000000+00:00"]
    assert {record.source for record in staged} == {"import:marquez"}


def test_rows_without_an_event_and_reserved_names_are_skipped(current: MarquezDatabase, tmp_path: Path) -> None:
    annotation = {"eventTime": "2024-01-01T00:00:00Z", "dataset": {"namespace": "clew", "name": "notes"}}
    annotation |= {
        "producer": "p",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetEvent",
    }
    current.store([annotation, run_event(1)])
    current.execute("alter table lineage_events alter column event drop not null")
    current.execute("insert into lineage_events (event_time, created_at) values (now(), now())")
    (result,) = stage(current, tmp_path)
    assert (result.events, result.empty, result.reserved) == (1, 1, 1)


@pytest.mark.parametrize("text", ['{"a": ', '"text"', "[]", "null"])
def test_rows_that_are_no_events_are_passed_on(text: str, postgres: str, tmp_path: Path) -> None:
    database = MarquezDatabase(create_database(postgres))
    # A changed server may store events as text.
    database.execute("alter table lineage_events alter column event type text")
    database.execute("insert into lineage_events (event_time, event, created_at) values (now(), %s, now())", text)
    assert [record.body for record in records(stage(database, tmp_path))] == [text.encode()]


def test_known_events_are_skipped_and_recent_ones_reported(current: MarquezDatabase, tmp_path: Path) -> None:
    current.store([run_event(number) for number in range(100)])
    first = stage(current, tmp_path)
    assert (first[0].events, len(first[0].recent_ids)) == (100, 61)
    assert first[0].recent_ids[-1] == event_id(records(first)[-1].body)
    again = stage(current, tmp_path, tuple(first[0].recent_ids))
    assert (again[0].events, again[0].known, len(again[0].recent_ids)) == (39, 61, 61)


def test_a_lost_connection_is_opened_again(current: MarquezDatabase, tmp_path: Path) -> None:
    current.store([run_event(number) for number in range(100)])
    limited = cut_connections(current, row=50, times=1)
    assert len(records(stage(limited, tmp_path))) == 100


def test_a_connection_that_is_lost_each_time_is_an_error(
    current: MarquezDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew.importer.staging_task._ATTEMPTS", 2)
    current.store([run_event(number) for number in range(10)])
    limited = cut_connections(current, row=5, times=10)
    (result,) = stage(limited, tmp_path)
    assert result.error is not None
    assert "failed: " in result.error
    assert result.paths == []
    assert list(tmp_path.rglob("*.tmp")) == []


def cut_connections(database: MarquezDatabase, *, row: int, times: int) -> MarquezDatabase:
    """Return the database for a role whose connections are terminated at a row, a number of times."""
    role = f"reader_{abs(hash((database.url, times)))}"
    database.execute(f"""
        create role {role} login;
        grant pg_read_all_data to {role};
        create sequence cuts;
        create function cut(at timestamptz) returns boolean language plpgsql security definer as $$
        begin
            if at = (select created_at from lineage_events order by created_at offset {row} limit 1)
                and current_query() like 'copy%' and nextval('cuts') <= {times} then
                perform pg_terminate_backend(pg_backend_pid());
            end if;
            return true;
        end $$;
        alter table lineage_events enable row level security;
        create policy cut on lineage_events using (cut(created_at))""")
    limited = object.__new__(MarquezDatabase)
    limited.url = database.url.replace("postgres:@", f"{role}@").replace("postgres@", f"{role}@")
    return limited
