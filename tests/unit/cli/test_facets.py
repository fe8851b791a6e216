"""`clew facets`: a run from the lake, a job or a dataset from the index."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import ClewError
from clew.events.identity import event_id
from clew.events.openlineage import decode
from clew.home import Home
from clew.index.observer import Observer
from clew.index.sink import IndexSink
from clew.lake.arrival import Arrival
from clew.lake.delta import Batch, Lake
from clew.lake.files import FileWriter
from clew.lake.lineage_rows import LineageRows
from clew.lake.tables import EVENT_TABLES, LARGE_COLUMNS


def event(number: int) -> bytes:
    version = {"version": {"datasetVersion": f"v{number}"}, "schema": {"fields": [{"name": f"c{number}"}]}}
    return json.dumps(
        {
            "eventTime": f"2026-01-01T10:0{number}:00Z",
            "run": {"runId": "r", "facets": {"note": {"[text]": number}}},
            "job": {"namespace": "n", "name": "j", "facets": {"sql": {"query": f"select {number}"}}},
            "inputs": [{"namespace": "n", "name": "i", "inputFacets": {"dataQualityMetrics": {"rowCount": 7}}}],
            "outputs": [{"namespace": "n", "name": "o", "facets": version}],
        }
    ).encode()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Home(tmp_path_factory.mktemp("home"))
    lake = Lake(made.lake)
    lake.prepare()
    rows, observer = LineageRows(), Observer()
    for seq, body in enumerate((event(1), event(2))):
        rows.add(decode(body), Arrival(event_id(body), seq, datetime(2026, 1, 2, tzinfo=UTC), "test", body))
        observer.note(decode(body), event_id(body), seq)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.batches()), *writer.flush()]
    for table in EVENT_TABLES:
        own = [file for file in files if file.table == table.name]
        lake.append(table.name, table.schema, own, Batch("app", 0))
    with IndexSink(made.index) as sink:
        sink.apply("app/0", observer.changes())
    return made.root


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["facets", *arguments, "--home", str(home)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("run", "r"),
            """run r
note  {"[text]": 2}
job n j
sql  {"query": "select 2"}
read n i
dataQualityMetrics  {"rowCount": 7}
wrote n o (version v1)
version  {"datasetVersion": "v1"}
schema   {"fields": [{"name": "c1"}]}
wrote n o (version v2)
version  {"datasetVersion": "v2"}
schema   {"fields": [{"name": "c2"}]}""",
        ),
        (("job", "n", "j"), 'job n j\nsql  {"query": "select 2"}'),
        (
            ("dataset", "n", "o"),
            'dataset n o (version v2)\nschema   {"fields": [{"name": "c2"}]}\nversion  {"datasetVersion": "v2"}',
        ),
        (
            ("dataset", "n", "o", "--dataset-version", "v1"),
            'dataset n o (version v1)\nschema   {"fields": [{"name": "c1"}]}\nversion  {"datasetVersion": "v1"}',
        ),
    ],
)
def test_facets_are_shown(arguments: tuple[str, ...], expected: str, home: Path) -> None:
    shown = invoke(home, *arguments).stdout
    assert [line.strip() for line in shown.splitlines()] == expected.splitlines()


@pytest.mark.parametrize(
    ("arguments", "key", "expected"),
    [
        (("run", "r"), "facets", {"note": {"[text]": 2}}),
        (("job", "n", "j"), "facets", {"sql": {"query": "select 2"}}),
        (("dataset", "n", "o"), "version", "v2"),
    ],
)
def test_facets_as_json(arguments: tuple[str, ...], key: str, expected: object, home: Path) -> None:
    assert json.loads(invoke(home, *arguments, "--json").stdout)[key] == expected


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "none"), "There are no facets of a run 'none'"),
        (("job", "n", "none"), "There is no job 'n:none'."),
        (("dataset", "n", "none"), "There is no dataset 'n:none'."),
        (("dataset", "n", "o", "--dataset-version", "v3"), "There are no facets of version 'v3' of a dataset 'o'"),
    ],
)
def test_what_is_not_there_is_said(arguments: tuple[str, ...], sentence: str, home: Path) -> None:
    with pytest.raises(ClewError, match=sentence) as raised:
        invoke(home, *arguments)
    assert raised.value.hint


def test_a_home_without_a_lake_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no lake"):
        invoke(tmp_path, "run", "r")


def test_a_backfill_of_a_filled_lake_starts_nothing(home: Path) -> None:
    ended = CliRunner().invoke(cli, ["pipeline", "backfill", "--home", str(home)], catch_exceptions=False)
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert ended.stderr == "All events have their facets.\n"
    ended = CliRunner().invoke(cli, ["pipeline", "backfill", "--json", "--home", str(home)], catch_exceptions=False)
    assert json.loads(ended.stdout)["chunks"] == 0
