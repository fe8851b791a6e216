"""Tests of `clew facets`: facets of a run from the lake, of a job or a dataset from the index."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS


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
    return write_home(tmp_path_factory.mktemp("home"), event(1), event(2))


def write_home(folder: Path, *bodies: bytes) -> Path:
    """Write events to a lake and an index."""
    data_dir = DataDir(folder)
    lake = Lake(data_dir.lake)
    lake.create_or_validate()
    rows, extractor = LineageTableBuilder(), ChangeExtractor()
    for seq, body in enumerate(bodies):
        rows.add(
            decode_openlineage(body), ReceivedEvent(event_id(body), seq, datetime(2026, 1, 2, tzinfo=UTC), "test", body)
        )
        extractor.add(decode_openlineage(body), event_id(body), seq)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.drain()), *writer.flush()]
    for table in EVENT_TABLES:
        table_files = [file for file in files if file.table == table.name]
        lake.append(table.name, table.schema, table_files, BatchId("app", 0))
    with IndexWriter(data_dir.index) as index:
        index.apply("app/0", extractor.changes())
    return data_dir.root


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
def test_facets_are_printed_as_text(arguments: tuple[str, ...], expected: str, home: Path) -> None:
    output = invoke(home, *arguments).stdout
    assert [line.strip() for line in output.splitlines()] == expected.splitlines()


def test_output_without_and_with_version_is_one(tmp_path: Path) -> None:
    start, complete = json.loads(event(1)), json.loads(event(2))
    start["outputs"][0]["facets"] = {"documentation": {"description": "totals"}, "schema": {"fields": []}}
    home = write_home(tmp_path, json.dumps(start).encode(), json.dumps(complete).encode())
    wrote = invoke(home, "run", "r").stdout.splitlines()[-4:]
    assert wrote[0] == "wrote n o (version v2)"
    assert [line.split()[0] for line in wrote[1:]] == ["documentation", "version", "schema"]
    assert "c2" in wrote[3]
    assert set(json.loads(invoke(home, "dataset", "n", "o", "--json").stdout)["facets"]) == {
        *("documentation", "version", "schema"),
    }


def test_long_facet_is_not_cut_and_its_metadata_is_last(tmp_path: Path) -> None:
    query = f"select {', '.join(f'column_{number}' for number in range(200))}"
    sql = {"_producer": "https://example.org", "_schemaURL": "https://example.org/sql", "query": query}
    write_event(tmp_path, {"sql": sql, "note": ["not", "an", "object"]})
    title, note, line = invoke(tmp_path, "job", "n", "j").stdout.splitlines()
    assert (title, note) == ("job n j", 'note  ["not", "an", "object"]')
    content = {"query": query, "_producer": "https://example.org", "_schemaURL": "https://example.org/sql"}
    assert line == f"sql   {json.dumps(content)}"


def test_long_facet_is_wrapped_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_event(tmp_path, {"sql": {"query": "x" * 500}})
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("clew.cli.output._PIPE_WIDTH", 100)
    output = re.sub(r"\x1b\[[0-9;]*m", "", invoke(tmp_path, "job", "n", "j").stdout)
    assert output.count("x") == 500
    assert max(map(len, output.splitlines())) <= 100


def write_event(home: Path, job_facets: dict[str, object]) -> None:
    body = json.loads(event(1))
    body["job"]["facets"] = job_facets
    write_home(home, json.dumps(body).encode())


def test_input_facets_of_a_dataset_are_printed(home: Path) -> None:
    output = invoke(home, "dataset", "n", "i").stdout.splitlines()
    assert output == ["dataset n i", "as input of the last runs that read it", 'dataQualityMetrics  {"rowCount": 7}']
    assert json.loads(invoke(home, "dataset", "n", "i", "--json").stdout)["input_facets"] == {
        "dataQualityMetrics": {"rowCount": 7}
    }


def test_output_facets_of_a_dataset_are_printed(tmp_path: Path) -> None:
    body = json.loads(event(1))
    statistics = {"outputStatistics": {"rowCount": 5, "size": 700}}
    body["outputs"] = [{"namespace": "n", "name": "o", "outputFacets": statistics}]
    write_home(tmp_path, json.dumps(body).encode())
    output = invoke(tmp_path, "dataset", "n", "o").stdout.splitlines()
    title = "as output of the last runs that wrote it"
    assert output == ["dataset n o", title, 'outputStatistics  {"rowCount": 5, "size": 700}']
    assert json.loads(invoke(tmp_path, "dataset", "n", "o", "--json").stdout)["output_facets"] == statistics


@pytest.mark.parametrize(
    ("arguments", "key", "expected"),
    [
        (("run", "r"), "facets", {"note": {"[text]": 2}}),
        (("job", "n", "j"), "facets", {"sql": {"query": "select 2"}}),
        (("dataset", "n", "o"), "version", "v2"),
    ],
)
def test_facets_are_printed_as_json(arguments: tuple[str, ...], key: str, expected: object, home: Path) -> None:
    assert json.loads(invoke(home, *arguments, "--json").stdout)[key] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "none"), "There are no facets of run 'none'"),
        (("job", "n", "none"), "There is no job 'n:none'."),
        (("dataset", "n", "none"), "There is no dataset 'n:none'."),
        (("dataset", "n", "o", "--dataset-version", "v3"), "There is no version of o 'v3'."),
    ],
)
def test_unknown_name_is_reported_with_hint(arguments: tuple[str, ...], message: str, home: Path) -> None:
    with pytest.raises(ClewError, match=message) as raised:
        invoke(home, *arguments)
    assert raised.value.hint


def test_diff_has_the_code_of_each_run(tmp_path: Path) -> None:
    later = json.loads(event(2))
    later["run"]["runId"] = "later"
    home = write_home(tmp_path, event(1), json.dumps(later).encode())
    result = CliRunner().invoke(cli, ["diff", "r", "later", "--home", str(home)], catch_exceptions=False)
    assert [line.strip() for line in result.stdout.splitlines()][-3:] == ["@@ -1 +1 @@", "-select 1", "+select 2"]


def test_missing_lake_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no lake"):
        invoke(tmp_path, "run", "r")


def test_backfill_without_pending_events_does_nothing(home: Path) -> None:
    result = CliRunner().invoke(cli, ["pipeline", "backfill", "--home", str(home)], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Nothing to backfill.\n"
    result = CliRunner().invoke(cli, ["pipeline", "backfill", "--json", "--home", str(home)], catch_exceptions=False)
    assert json.loads(result.stdout)["chunks"] == 0
