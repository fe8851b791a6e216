"""Tests of imports with Spark: from a Marquez database to answers, repeated, resumed, compared and exported."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from starlette.testclient import TestClient
from tests.support.marquez_database import MarquezDatabase, create_database, row_id, run_event
from tests.support.paths import ROOT

from clew.cli.main import cli
from clew.cli.serving import build_read_app
from clew.data_dir import DatabaseUrl, DataDir
from clew.errors import ClewError
from clew.importer import marquez_database
from clew.importer.comparison import DatabaseFacts, compare_with_marquez
from clew.importer.export import export_all
from clew.importer.importer import (
    ImportContext,
    ImportSummary,
    import_database,
    import_event_files,
    preview_database,
)
from clew.importer.ingestion import SparkOptions
from clew.importer.marquez_database import connect_marquez, read_schema
from clew.lake.history import recent_rejections
from clew.lake.lake import Lake
from clew.lake.schemas import LINEAGE_EVENTS

EVENTS = [run_event(number, kind, "dag") for number in range(12) for kind in ("START", "COMPLETE")]


@pytest.fixture
def database(postgres: str) -> MarquezDatabase:
    database = MarquezDatabase(create_database(postgres))
    database.store(EVENTS[:4], has_received_at=False)
    database.store(EVENTS[4:])
    return database


def import_into(home: DataDir, database: MarquezDatabase, spark: SparkSession, **options: Any) -> ImportSummary:
    context = ImportContext(home, SparkOptions(session=spark), **options)
    return import_database(context, DatabaseUrl(database.url, Path()))


def stored_events(home: DataDir) -> list[dict[str, Any]]:
    lake = Lake(home.lake)
    table = lake.table(LINEAGE_EVENTS.name)
    assert table is not None
    rows = table.to_pyarrow_table(columns=["seq", "event", "received_at", "source", "is_raw_only"]).sort_by("seq")
    return [{**row, "event": json.loads(row["event"])} for row in rows.to_pylist() if '"notes"' not in row["event"]]


def test_an_import_is_complete_repeatable_and_compared(
    database: MarquezDatabase, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marquez_database, "ROWS_PER_CHUNK", 5)
    home = DataDir(tmp_path / "home")
    database.tag("PII", "personal", dataset=row_id("dataset", "db", "out0"))
    database.execute("update namespaces set current_owner_name = 'team' where name = 'db'")
    with database.connect() as connection:
        database.add_job(connection, ("jobs", "manual"))
    preview = preview_database(ImportContext(home), DatabaseUrl(database.url, Path()))
    assert (preview.events, preview.new_events, preview.counts["tags"]) == (24, 24, 1)
    assert not home.log.exists()

    first = import_into(home, database, spark)
    assert (first.events, first.entity_events, first.annotations) == (24, 1, 3)
    assert (first.ingestion.rejected, first.ingestion.is_complete) == (0, True)
    rows = stored_events(home)
    assert [row["event"] for row in rows[:24]] == EVENTS
    assert {row["source"] for row in rows[:24]} == {"import:marquez"}
    # The time of receipt, after the four events without one.
    assert rows[4]["received_at"].isoformat() == "2024-05-06T07:08:14+00:00"

    again = import_into(home, database, spark)
    assert (again.events, again.entity_events, again.annotations) == (0, 0, 0)
    database.store([run_event(50)])
    assert import_into(home, database, spark).events == 1
    assert len(stored_events(home)) == 26

    with TestClient(build_read_app(home)) as client:
        run = client.get(f"/api/v1/jobs/runs/{row_id('run', 3)}").json()
        assert (run["state"], run["id"]) == ("COMPLETED", str(row_id("run", 3)))
        tags = client.get("/api/v1/namespaces/db/datasets/out0").json()["tags"]
        assert tags == ["PII"]
        assert client.get("/api/v1/namespaces/db").json()["ownerName"] == "team"
        check_former_addresses(client)

    url = DatabaseUrl(database.url, Path())
    with connect_marquez(url) as connection:
        comparison = compare_with_marquez(home, DatabaseFacts(connection, read_schema(connection, url)), 100)
    assert comparison.compared > 20
    assert comparison.unexplained == 0
    assert {(count.name, count.marquez == count.clew) for count in comparison.counts} >= {("namespaces", True)}

    # Users of clew keep their own tags at the next import.
    exported = export_all(home, tmp_path / "export", is_compressed=True)
    assert (exported.events, exported.annotations, exported.rejected) == (26, 3, 0)
    copy = DataDir(tmp_path / "copy")
    imported = import_event_files(ImportContext(copy, SparkOptions(session=spark)), [str(tmp_path / "export")])
    assert (imported.events, imported.annotations) == (26, 3)
    assert [row["event"] for row in stored_events(copy)] == [row["event"] for row in stored_events(home)]
    with TestClient(build_read_app(copy)) as client:
        assert client.get("/api/v1/namespaces/db/datasets/out0").json()["tags"] == ["PII"]


def check_former_addresses(client: TestClient) -> None:
    """Check that the names and ids of Marquez resolve."""
    job = client.get("/api/v1/namespaces/jobs/jobs/dag.job0")
    assert (job.status_code, job.json()["name"]) == (200, "job0")
    assert client.get("/api/v1/namespaces/jobs/jobs/dag.job0/runs").json()["totalCount"] == 4
    assert client.get("/api/v1/lineage", params={"nodeId": "job:jobs:dag.job0"}).status_code == 200
    assert client.get("/api/v1/namespaces/jobs/jobs/dag.unknown").status_code == 404
    row = row_id("dataset version", "db", "out0", row_id("run", 3))
    for version in (row, row_id("hash", row)):
        document = client.get(f"/api/v1/namespaces/db/datasets/out0/versions/{version}")
        assert document.status_code == 200, document.text
        assert document.json()["createdByRun"]["id"] == str(row_id("run", 3))
        assert client.get(f"/api/v1/namespaces/db/datasets/out1/versions/{version}").status_code == 404
    version = row_id("job version", "jobs", "dag.job0")
    assert client.get(f"/api/v1/namespaces/jobs/jobs/dag.job0/versions/{version}").status_code == 200


def test_raw_events_can_be_read_before_the_backfill(
    database: MarquezDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    home = DataDir(tmp_path / "home")
    result = import_into(home, database, spark, has_backfill=False)
    assert not result.ingestion.is_complete
    assert all(row["is_raw_only"] for row in stored_events(home)[:24])
    with TestClient(build_read_app(home)) as client:
        fields = client.get("/api/v1/namespaces/db/datasets/out0").json()["fields"]
    assert [field["name"] for field in fields] == ["id", "c0"]


def test_a_failed_import_continues(
    database: MarquezDatabase, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marquez_database, "ROWS_PER_CHUNK", 5)
    home = DataDir(tmp_path / "home")
    # Not in the database of the workers: the third range has the wrong column.
    plan = marquez_database.plan_events

    def damaged_plan(*args: Any) -> marquez_database.EventPlan:
        planned = plan(*args)
        chunks = list(planned.chunks)
        chunks[3] = marquez_database.RowRange(3, "created_at", "not a time", chunks[3].upper, 5)
        return marquez_database.EventPlan(tuple(chunks), planned.recent_from)

    with monkeypatch.context() as patch:
        patch.setattr("clew.importer.importer.plan_events", damaged_plan)
        with pytest.raises(ClewError, match="14 events are in the log"):
            import_into(home, database, spark)
    result = import_into(home, database, spark)
    assert result.events == 10
    assert [row["event"] for row in stored_events(home)[:24]] == EVENTS


def test_rows_that_are_no_events_become_dead_letters(
    database: MarquezDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    home = DataDir(tmp_path / "home")
    database.execute("alter table lineage_events alter column event type text")
    for text in ('{"broken": ', "[]", '{"eventTime": 1}'):
        statement = "insert into lineage_events (event_time, event, created_at) values (now(), %s, now())"
        database.execute(statement, text)
    result = import_into(home, database, spark, has_backfill=False)
    assert (result.events, result.ingestion.rejected) == (27, 3)
    assert len(recent_rejections(home.lake, 5)) == 3


def test_documented_commands(
    database: MarquezDatabase, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the commands of docs/from-marquez.md in their order, except those that need another server."""
    assert spark is not None  # reused by the commands
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))
    (tmp_path / "events.ndjson.gz").write_bytes(gzip.compress(json.dumps(run_event(70)).encode()))
    page = (ROOT / "docs" / "from-marquez.md").read_text()
    lines = re.findall(r"^\$ clew ((?:import|export) .*)$", page, re.MULTILINE)
    commands = [line.split() for line in lines if "http://" not in line and "s3://" not in line]
    assert {tuple(command[:2]) for command in commands} == {
        ("import", "marquez"),
        ("import", "compare"),
        ("import", "files"),
        ("export", "all"),
    }
    for command in commands:
        arguments = [database.url if "postgresql://" in argument else argument for argument in command]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, f"{command}: {result.output} {result.exception}"
    assert len(gzip.decompress((tmp_path / "backup" / "events.ndjson.gz").read_bytes()).splitlines()) == 25


def test_commands(database: MarquezDatabase, tmp_path: Path) -> None:
    arguments = ["import", "marquez", database.url, "--home", str(tmp_path / "home")]
    result = CliRunner().invoke(cli, [*arguments, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "24 events" in result.output
    result = CliRunner().invoke(cli, ["import", database.url, "--dry-run", "--json", "--home", str(tmp_path / "home")])
    assert json.loads(result.stdout)["events"] == 24
