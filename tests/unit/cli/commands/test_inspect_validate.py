"""Tests of `clew validate`: schema errors and warnings of event files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.documented_events import START_WITH_TRAILING_COMMAS

from clew.cli.main import cli
from clew.errors import ClewError

ADDRESS = "https://example.com/x"
GOOD: dict[str, Any] = {
    "eventType": "START",
    "eventTime": "2026-11-15T14:02:11Z",
    "producer": ADDRESS,
    "schemaURL": ADDRESS,
    "run": {"runId": "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"},
    "job": {"namespace": "n", "name": "j"},
}
END = {**GOOD, "eventType": "COMPLETE"}


def validate(folder: Path, *events: Any, options: tuple[str, ...] = ()) -> Result:
    file = folder / "events.ndjson"
    file.write_text("\n".join(event if isinstance(event, str) else json.dumps(event) for event in events))
    return CliRunner().invoke(cli, ["validate", str(file), *options], catch_exceptions=False)


def rules(result: Result) -> list[str]:
    return [issue["rule"] for issue in json.loads(result.stdout)["issues"]]


@pytest.mark.parametrize(
    ("events", "code", "expected"),
    [
        ([GOOD, END], 0, []),
        ([GOOD], 0, ["run-end"]),
        ([{**GOOD, "run": {"runId": "seven"}}, {**END, "run": {"runId": "seven"}}], 1, ["spec", "run-id"] * 2),
        ([GOOD, END, "{"], 1, ["rejected:not_json"]),
        ([GOOD, END, "[]"], 1, ["rejected:not_an_object"]),
        ([GOOD, {**END, "eventTime": "noon"}], 1, ["rejected:no_time", "spec"]),
        ([{"event_type": "cell_execution_end"}], 1, ["rejected:no_identity", "schema:runtime"]),
        ([{**GOOD, "session_id": "12c3604f"}, END], 1, ["schema:openlineage"]),
    ],
)
def test_issues_and_exit_codes(events: list[Any], code: int, expected: list[str], tmp_path: Path) -> None:
    result = validate(tmp_path, *events, options=("--json",))
    assert result.exit_code == code
    assert list(dict.fromkeys(rules(result))) == list(dict.fromkeys(expected))


def test_issues_have_location_and_summary(tmp_path: Path) -> None:
    result = validate(tmp_path, GOOD, {**END, "producer": 7})
    assert result.stdout.splitlines() == [
        'events.ndjson:2  spec  /producer  7 is not of type "string"',
        "2 events (2 openlineage): 1 valid; 1 error, 0 warnings.",
    ]


def test_limit_applies_to_list_but_not_to_counts(tmp_path: Path) -> None:
    result = validate(tmp_path, *[{**GOOD, "producer": 7}] * 5, END, options=("--limit", "2"))
    assert result.stdout.count("events.ndjson:") == 2
    assert "… and 3 more; raise --limit to list them." in result.stdout
    assert "6 events (6 openlineage): 1 valid; 5 errors, 0 warnings." in result.stdout


def validate_text(folder: Path, text: str, name: str = "events.json") -> dict[str, Any]:
    file = folder / name
    file.write_text(text)
    result = CliRunner().invoke(cli, ["validate", str(file), "--json"], catch_exceptions=False)
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([GOOD, END]),
        json.dumps([GOOD, END], indent=2),
        f"[\n{json.dumps(GOOD)},\n{json.dumps(END)}\n]\n",
        json.dumps(GOOD, indent=2) + "\n" + json.dumps(END, indent=4),
        json.dumps(GOOD, indent="\t") + json.dumps(END),
        json.dumps(GOOD, indent=2).replace("\n", "\r\n\r\n") + "\n\n" + json.dumps(END),
        json.dumps(GOOD) + "\n\n" + json.dumps(END),
    ],
    ids=["list", "indented list", "list of lines", "objects", "objects without a newline", "blank lines", "NDJSON"],
)
@pytest.mark.parametrize("name", ["events.json", "events.ndjson"])
def test_reads_multi_line_files(text: str, name: str, tmp_path: Path) -> None:
    report = validate_text(tmp_path, text, name)
    assert (report["events"], report["valid"], report["issues"]) == ({"openlineage": 2}, 2, [])


def test_reads_one_object_on_several_lines(tmp_path: Path) -> None:
    report = validate_text(tmp_path, json.dumps({**GOOD, "producer": 7}, indent=2))
    assert report["events"] == {"openlineage": 1}
    assert [(issue["rule"], issue["line"]) for issue in report["issues"]] == [("spec", 1), ("run-end", None)]


def test_locates_trailing_commas(tmp_path: Path) -> None:
    report = validate_text(tmp_path, START_WITH_TRAILING_COMMAS)
    assert report["events"] == {"openlineage": 1}
    assert [(issue["rule"], issue["line"], issue["message"]) for issue in report["issues"]] == [
        ("rejected:not_json", line, f"line {line}, column {column}: trailing comma; remove it")
        for line, column in [(5, 52), (9, 27), (14, 38), (20, 45)]
    ]


def test_locates_errors_in_the_second_object_and_in_a_list(tmp_path: Path) -> None:
    text = json.dumps(GOOD, indent=2) + "\n" + json.dumps(END, indent=2)[:-2] + ",\n}"
    issue, _ = validate_text(tmp_path, text)["issues"]
    assert issue["message"] == f"line {text.count(chr(10))}, column 4: trailing comma; remove it"
    (issue,) = validate_text(tmp_path, f'[{json.dumps(GOOD)}, {json.dumps(END)},\n{{"a": nul}}]')["issues"]
    assert (issue["line"], issue["message"]) == (2, "line 2, column 7: Expecting value")


def test_one_damaged_line_of_ndjson_is_one_error(tmp_path: Path) -> None:
    lines = [json.dumps(GOOD)[:40], json.dumps(GOOD), json.dumps(END)]
    report = validate_text(tmp_path, "\n".join(lines))
    assert (report["events"], report["valid"]) == ({"openlineage": 3}, 2)
    assert [(issue["rule"], issue["line"]) for issue in report["issues"]] == [("rejected:not_json", 1)]


def test_truncated_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson.gz"
    file.write_bytes(b"\x1f\x8b")
    with pytest.raises(ClewError, match=r"Cannot read [\s\S]*Fix the file and validate it again\."):
        CliRunner().invoke(cli, ["validate", str(file)], catch_exceptions=False)
