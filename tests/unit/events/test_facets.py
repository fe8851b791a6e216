"""Tests of parsing facets of runs and jobs, valid and malformed."""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_URL, uuid3

import pytest
from msgspec import Raw

from clew.events.facets import (
    cached_by_bytes,
    decode_facet,
    find_parent,
    get_str,
    parse_description,
    parse_job_type,
    parse_nominal_time,
    parse_parent,
    parse_run_error,
    parse_source_code_location,
)

NO_ANCESTOR = (None, None, None)


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
def test_decode_facet(facet: bytes, value: dict[str, Any]) -> None:
    assert decode_facet(facet) == value


@pytest.mark.parametrize(
    ("path", "text"), [(("a", "b"), "x"), (("a",), None), (("a", "b", "c"), None), (("n",), None), (("none",), None)]
)
def test_get_str(path: tuple[str, ...], text: str | None) -> None:
    assert get_str({"a": {"b": "x"}, "n": 1}, *path) == text


def test_cached_by_bytes_caches_small_facets_only() -> None:
    calls: list[int] = []

    @cached_by_bytes
    def measure(facet: bytes) -> int:
        calls.append(len(facet))
        return len(facet)

    assert [measure(b"x"), measure(b"x"), measure(b"x" * 9999), measure(b"x" * 9999)] == [1, 1, 9999, 9999]
    assert calls == [1, 9999, 9999]


@pytest.mark.parametrize(
    ("facet", "names", "ancestors"),
    [
        (
            {"run": {"runId": "p"}, "job": {"namespace": "n", "name": "j"}},
            ("p", "n", "j", *NO_ANCESTOR),
            [("p", ("n", "j"))],
        ),
        ({"run": {"runId": "p"}, "job": {"name": "j"}}, ("p", None, "j", *NO_ANCESTOR), [("p", None)]),
        ({"job": {"namespace": "n", "name": "j"}}, (None, "n", "j", *NO_ANCESTOR), []),
        ({"run": {"runId": "p"}, "root": {"run": {"runId": "q"}}}, ("p", None, None, "q", None, None), "pq"),
        ({"run": {"runId": 7}, "root": None}, NO_ANCESTOR * 2, []),
        ({"run": "p", "job": [], "root": "q"}, NO_ANCESTOR * 2, []),
        ({"run": {"runId": ""}}, NO_ANCESTOR * 2, []),
        ({"_deleted": True, "run": {"runId": "p"}}, NO_ANCESTOR * 2, []),
        ("p", NO_ANCESTOR * 2, []),
    ],
)
def test_parse_parent(facet: object, names: tuple[str | None, ...], ancestors: list[tuple[str, Any]] | str) -> None:
    parent = parse_parent(json.dumps(facet).encode())
    assert parent.names == names
    assert list(parent.runs) == [
        ancestor if isinstance(ancestor, tuple) else (ancestor, None) for ancestor in ancestors
    ]


@pytest.mark.parametrize(
    ("facet", "times"),
    [
        ({"nominalStartTime": "1970-01-01T00:00:01Z"}, (1_000_000, None)),
        ({"nominalStartTime": "1970-01-01", "nominalEndTime": "1970-01-01T01:00:00+01:00"}, (0, 0)),
        ({"nominalStartTime": "today", "nominalEndTime": 5}, (None, None)),
        ([], (None, None)),
    ],
)
def test_parse_nominal_time(facet: object, times: tuple[int | None, int | None]) -> None:
    assert parse_nominal_time(json.dumps(facet).encode()) == times


def test_parse_run_error() -> None:
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
def test_parse_source_code_location(facet: object, location: str | None) -> None:
    assert parse_source_code_location(json.dumps(facet).encode()) == location


def test_parse_job_type_and_description() -> None:
    facet = b'{"processingType": "BATCH", "integration": "SPARK", "jobType": 3}'
    assert parse_job_type(facet) == (None, "SPARK", "BATCH")
    assert parse_description(b'{"description": "Loads."}') == "Loads."
    assert parse_description(b'{"_deleted": true, "description": "Loads."}') is None


TASK = "team", "dag.task"
SCHEDULE = "scheduled__2022-04-25T00:20:00+00:00"
DAG_RUN = "d46e465b-d358-4d32-83d4-df660ff614dd"


def parent_of_task(run: str, name: str) -> Raw:
    return Raw(json.dumps({"run": {"runId": run}, "job": {"namespace": "team", "name": name}}).encode())


@pytest.mark.parametrize(
    ("facets", "expected"),
    [
        ({"parent": parent_of_task(DAG_RUN, "dag")}, (DAG_RUN, "dag")),
        ({"parentRun": parent_of_task(DAG_RUN, "dag")}, (DAG_RUN, "dag")),
        ({"parentRun": parent_of_task(DAG_RUN, "dag"), "parent": parent_of_task("r", "x")}, (DAG_RUN, "dag")),
        # The task and the schedule instead of the DAG and its run; the id is that of Marquez.
        (
            {"parent": parent_of_task(SCHEDULE, "dag.task")},
            (str(uuid3(NAMESPACE_URL, f"team.dag.{SCHEDULE}")), "dag"),
        ),
        ({"parent": parent_of_task(SCHEDULE, "dag.other")}, (SCHEDULE, "dag.other")),
        ({"parent": parent_of_task(DAG_RUN, "dag.task")}, (DAG_RUN, "dag.task")),
    ],
)
def test_find_parent(facets: dict[str, Raw], expected: tuple[str, str]) -> None:
    parent = find_parent(facets, TASK)
    assert parent is not None
    assert (parent.names[0], parent.names[2]) == expected
    assert [(run.run_uuid, run.job) for run in parent.runs] == [(expected[0], ("team", expected[1]))]


def test_a_run_without_parent() -> None:
    assert find_parent({}, TASK) is None
    assert find_parent({"parent": parent_of_task(SCHEDULE, "task")}, ("team", "task")) is not None
