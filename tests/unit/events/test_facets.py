"""What facets of runs and jobs say, sound or not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.facets import (
    cached_by_bytes,
    decode_facet,
    get_str,
    parse_description,
    parse_job_type,
    parse_nominal_time,
    parse_parent,
    parse_run_error,
    parse_source_code_location,
)

UNSAID = (None, None, None)


@pytest.mark.parametrize(
    ("facet", "value"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'{"a": 1, "_deleted": true}', {}),
        (b'{"a": 1, "_deleted": "true"}', {"a": 1, "_deleted": "true"}),
        (b'"text"', {}),
        (b"null", {}),
        (b"[1]", {}),
        (b"{", {}),
        (b"[" * 100_000, {}),
    ],
)
def test_a_facet_is_an_object_or_says_nothing(facet: bytes, value: dict[str, Any]) -> None:
    assert decode_facet(facet) == value


@pytest.mark.parametrize(
    ("path", "text"), [(("a", "b"), "x"), (("a",), None), (("a", "b", "c"), None), (("n",), None), (("none",), None)]
)
def test_only_a_text_is_found(path: tuple[str, ...], text: str | None) -> None:
    assert get_str({"a": {"b": "x"}, "n": 1}, *path) == text


def test_a_small_facet_is_read_once_and_a_large_one_is_not_kept() -> None:
    seen: list[int] = []

    @cached_by_bytes
    def read(facet: bytes) -> int:
        seen.append(len(facet))
        return len(facet)

    assert [read(b"x"), read(b"x"), read(b"x" * 9999), read(b"x" * 9999)] == [1, 1, 9999, 9999]
    assert seen == [1, 9999, 9999]


@pytest.mark.parametrize(
    ("facet", "names", "ancestors"),
    [
        (
            {"run": {"runId": "p"}, "job": {"namespace": "n", "name": "j"}},
            ("p", "n", "j", *UNSAID),
            [("p", ("n", "j"))],
        ),
        ({"run": {"runId": "p"}, "job": {"name": "j"}}, ("p", None, "j", *UNSAID), [("p", None)]),
        ({"job": {"namespace": "n", "name": "j"}}, (None, "n", "j", *UNSAID), []),
        ({"run": {"runId": "p"}, "root": {"run": {"runId": "q"}}}, ("p", None, None, "q", None, None), "pq"),
        ({"run": {"runId": 7}, "root": None}, UNSAID * 2, []),
        ({"run": "p", "job": [], "root": "q"}, UNSAID * 2, []),
        ({"run": {"runId": ""}}, ("", None, None, *UNSAID), []),
        ({"_deleted": True, "run": {"runId": "p"}}, UNSAID * 2, []),
        ("p", UNSAID * 2, []),
    ],
)
def test_parents(facet: object, names: tuple[str | None, ...], ancestors: list[tuple[str, Any]] | str) -> None:
    found = parse_parent(json.dumps(facet).encode())
    assert found.names == names
    assert list(found.runs) == [one if isinstance(one, tuple) else (one, None) for one in ancestors]


@pytest.mark.parametrize(
    ("facet", "times"),
    [
        ({"nominalStartTime": "1970-01-01T00:00:01Z"}, (1_000_000, None)),
        ({"nominalStartTime": "1970-01-01", "nominalEndTime": "1970-01-01T01:00:00+01:00"}, (0, 0)),
        ({"nominalStartTime": "today", "nominalEndTime": 5}, (None, None)),
        ([], (None, None)),
    ],
)
def test_nominal_times(facet: object, times: tuple[int | None, int | None]) -> None:
    assert parse_nominal_time(json.dumps(facet).encode()) == times


def test_errors() -> None:
    assert parse_run_error(b'{"message": "no", "programmingLanguage": "SQL", "stackTrace": "..."}') == ("no", "SQL")
    assert parse_run_error(b'{"message": null}') == (None, None)


@pytest.mark.parametrize(
    ("facet", "location"),
    [
        ({"type": "git", "url": "https://x/y", "repoUrl": "r", "path": "p"}, "https://x/y"),
        ({"url": "https://x/y", "version": "abc"}, "https://x/y@abc"),
        ({"repoUrl": "https://x/r", "path": "p/q.py", "version": "1"}, "https://x/r/p/q.py@1"),
        ({"path": "q.py"}, "q.py"),
        ({"type": "git"}, None),
        ({"_deleted": True, "url": "u"}, None),
    ],
)
def test_locations(facet: object, location: str | None) -> None:
    assert parse_source_code_location(json.dumps(facet).encode()) == location


def test_types_and_descriptions_of_jobs() -> None:
    facet = b'{"processingType": "BATCH", "integration": "SPARK", "jobType": 3}'
    assert parse_job_type(facet) == (None, "SPARK", "BATCH")
    assert parse_description(b'{"description": "Loads."}') == "Loads."
    assert parse_description(b'{"_deleted": true, "description": "Loads."}') is None
