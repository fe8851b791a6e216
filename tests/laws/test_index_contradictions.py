"""Properties of the index with contradictory events: order and size of batches do not matter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.facet_blobs import TABLES, VIEWS, index_facets

from clew.events.ids import compute_job_version
from clew.events.streams import decode_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

Json = dict[str, Any]
RUN_FACETS = ("parent", "nominalTime", "errorMessage")
JOB_FACETS = ("jobType", "documentation", "sourceCodeLocation")
# These tables depend on the order of batches.
ORDER_DEPENDENT = {"meta", "batches", "events", "rejected", "zstd_dictionaries"}


def ancestor(run: str, job: str | None) -> Json:
    return {"run": {"runId": run}, **({"job": {"namespace": "n", "name": job}} if job else {})}


def event(run: str | None, kind: str | None, minute: int, job: str | None, facets: Json) -> Json:
    """Return a RunEvent, a JobEvent without a run, or a DatasetEvent without run and job. A run has a job."""
    job = job or ("j" if run else None)
    run_facets, job_facets = (
        {name: facets[name] for name in names if name in facets} for names in (RUN_FACETS, JOB_FACETS)
    )
    output_facets = {
        "facets": {"schema": facets.get("schema")},
        "outputFacets": {"outputStatistics": facets.get("rows")},
    }
    output = {"namespace": "n", "name": "o", **{key: without_none(values) for key, values in output_facets.items()}}
    result = {
        "eventTime": f"2026-01-01T10:{minute:02}:00Z",
        "eventType": kind if run else None,
        "run": {"runId": run, "facets": run_facets} if run else None,
        "job": {"namespace": "n", "name": job, "facets": job_facets} if job else None,
        "inputs": [{"namespace": "n", "name": name} for name in facets.get("inputs", ())],
        "outputs": [output],
        "dataset": None if run or job else output,
    }
    return without_none(result)


def without_none(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


runs = st.sampled_from(["run-a", "run-b", "run-c"])
jobs = st.sampled_from(["j", "k", "l"])
words = st.sampled_from(["x", "y"])
ancestors = st.builds(ancestor, runs, st.none() | jobs)
deleted = st.just({"_deleted": True})
times = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02", "never"])
facets = st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.sets(st.sampled_from(["i", "o"])).map(sorted),
        "rows": st.builds(dict, rowCount=st.integers(0, 2)) | deleted,
        "schema": st.builds(dict, fields=st.lists(st.builds(dict, name=words), max_size=2)) | deleted,
        "parent": deleted | ancestors | st.builds(lambda parent, root: {**parent, "root": root}, ancestors, ancestors),
        "nominalTime": deleted | st.builds(dict, nominalStartTime=times) | st.builds(dict, nominalEndTime=times),
        "errorMessage": deleted | st.builds(dict, message=words) | st.builds(dict, programmingLanguage=words),
        "jobType": deleted | st.builds(dict, jobType=words) | st.builds(dict, integration=words),
        "documentation": deleted | st.builds(dict, description=words),
        "sourceCodeLocation": deleted | st.builds(dict, url=words) | st.builds(dict, path=words, version=words),
    },
)
kinds = st.sampled_from(["START", "RUNNING", "COMPLETE", "FAIL", "OTHER", None])
minutes = st.integers(0, 5)
logs = st.lists(
    st.builds(event, runs, kinds, minutes, st.none() | jobs, facets)
    | st.builds(event, st.none(), st.none(), minutes, st.none() | jobs, facets),
    min_size=1,
    max_size=8,
)


def extract_changes(numbered: list[tuple[int, Json]]) -> ChangeSet:
    extractor = ChangeExtractor()
    for seq, body in numbered:
        extractor.add(decode_event("openlineage", json.dumps(body).encode()), f"{seq:032x}", seq)
    # Serialize as between worker and driver.
    return msgspec.msgpack.decode(msgspec.msgpack.encode(extractor.changes()), type=ChangeSet)


def index_rows(index_writer: IndexWriter, batches: list[list[tuple[int, Json]]]) -> dict[str, list[str]]:
    """Return all rows of all tables and views of an empty index after the batches."""
    database = index_writer._database
    for name in TABLES:
        database.execute(f"delete from {name} where {'key' if name == 'meta' else repr('')} != 'format'")
    index_writer._written_edge_sets.clear()
    index_writer._written_schemas.clear()
    for number, batch in enumerate(batches):
        index_writer.apply(f"test/{number}", extract_changes(batch))
    rows_by_name = {
        name: database.execute(f"select * from {name}") for name in {*TABLES, *VIEWS} - ORDER_DEPENDENT - {"facets"}
    }
    tables: list[tuple[str, Iterable[Any]]] = [*rows_by_name.items(), ("facets", index_facets(database))]
    return {name: sorted(map(repr, rows)) for name, rows in tables}


@pytest.mark.slow
@given(log=logs, data=st.data())
def test_order_and_size_of_batches_do_not_matter(
    sqlite_writer: IndexWriter, log: list[Json], data: st.DataObject
) -> None:
    numbered = list(enumerate(log))
    expected = index_rows(sqlite_writer, [numbered])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=3)))
    parts = [numbered[low:high] for low, high in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    assert index_rows(sqlite_writer, parts) == expected
    assert index_rows(sqlite_writer, data.draw(st.permutations(parts)) + data.draw(st.permutations(parts))) == expected
    single_events = [[item] for item in numbered]
    assert index_rows(sqlite_writer, data.draw(st.permutations(single_events))) == expected


def query_rows(index_writer: IndexWriter, query: str, *log: Json) -> list[tuple[Any, ...]]:
    """Return the rows of a query after one batch per event, in reverse order."""
    index_rows(index_writer, [[item] for item in reversed(list(enumerate(log)))])
    result: list[tuple[Any, ...]] = index_writer._database.execute(query).fetchall()
    return result


# Time of the first event in microseconds.
FIRST_MINUTE = 1_767_261_600_000_000
RUN = "select {} from all_runs where run_uuid = 'a'"
JOB = "select {} from all_jobs where name = 'j'"


@pytest.mark.parametrize(
    ("query", "log", "expected"),
    [
        (RUN.format("job_name, job_seq"), [("a", "j", {}), ("a", "k", {})], ("j", 0)),
        (
            RUN.format("parent_run_uuid, root_run_uuid, parent_seq"),
            [("a", "j", {"parent": {**ancestor("p", "x"), "root": ancestor("q", "y")}}), ("a", "j", {})],
            ("p", "q", 0),
        ),
        (
            RUN.format("parent_run_uuid, parent_job_name, root_run_uuid, parent_seq"),
            [("a", "j", {"parent": {**ancestor("p", "x"), "root": ancestor("q", "y")}}), ("a", "j", {"parent": {}})],
            (None, None, None, 1),
        ),
        (
            RUN.format("parent_run_uuid, parent_job_name"),
            [("a", "j", {"parent": {"run": {"runId": 7}, "job": {"name": "x"}, "root": None}})],
            (None, "x"),
        ),
        (
            RUN.format("nominal_start_at, nominal_end_at"),
            [("a", "j", {"nominalTime": {"nominalStartTime": "1970-01-01T00:00:01Z", "nominalEndTime": "soon"}})],
            (1_000_000, None),
        ),
        (
            RUN.format("error_message, error_language, error_seq"),
            [
                ("a", "j", {"errorMessage": {"message": "no", "programmingLanguage": "SQL"}}),
                ("a", "j", {"errorMessage": {"message": "never"}}),
            ],
            ("never", None, 1),
        ),
        (RUN.format("is_placeholder, state, job_name"), [("b", "j", {"parent": ancestor("a", "x")})], (1, "NEW", "x")),
        (
            RUN.format("is_placeholder, state, job_name, first_event_at, last_seq"),
            [("b", "j", {"parent": ancestor("a", None)}), ("c", "j", {"parent": ancestor("a", "y")})],
            (1, "NEW", "y", FIRST_MINUTE, 1),
        ),
        (
            RUN.format("is_placeholder, state, job_name, last_seq"),
            [("a", "k", {}), ("b", "j", {"parent": ancestor("a", "x")})],
            (0, "RUNNING", "k", 0),
        ),
        (
            RUN.format("is_placeholder, job_name, last_seq"),
            [("b", "j", {"parent": ancestor("a", "x")}), ("a", "k", {})],
            (0, "k", 1),
        ),
        (
            JOB.format("is_placeholder, last_event_at"),
            [("b", "k", {"parent": ancestor("a", "j")})],
            (1, FIRST_MINUTE),
        ),
        (
            JOB.format("parent_job_namespace, parent_job_name, parent_seq"),
            [("a", "j", {"parent": ancestor("p", "x")}), ("b", "j", {"parent": ancestor("q", None)}), ("c", "j", {})],
            ("n", "x", 0),
        ),
        (JOB.format("is_placeholder, first_seq"), [("b", "k", {"parent": ancestor("a", "j")}), ("a", "j", {})], (0, 1)),
        (
            JOB.format("job_type, integration, processing_type, type_seq"),
            [
                ("a", "j", {"jobType": {"jobType": "DAG", "integration": "AIRFLOW", "processingType": "BATCH"}}),
                ("a", "j", {"jobType": {"jobType": "TASK", "processingType": "STREAMING"}}),
            ],
            ("TASK", None, "STREAMING", 1),
        ),
        (
            JOB.format("description"),
            [
                ("a", "j", {"documentation": {"description": "first"}}),
                ("a", "j", {"documentation": {"_deleted": True}}),
            ],
            (None,),
        ),
        (JOB.format("latest_run_uuid"), [("a", "j", {}), (None, "j", {})], ("a",)),
    ],
)
def test_runs_and_jobs_by_their_facets(
    query: str, log: list[tuple[str | None, str | None, Json]], expected: tuple[Any, ...], index_writer: IndexWriter
) -> None:
    events = [event(run, "START", minute, job, facets) for minute, (run, job, facets) in enumerate(log)]
    assert query_rows(index_writer, query, *events) == [expected]


def test_job_version_depends_on_inputs_and_outputs_of_the_run(index_writer: IndexWriter) -> None:
    start = event("a", "START", 0, "j", {"inputs": ["i"], "sourceCodeLocation": {"url": "u", "version": "1"}})
    end, late = event("a", "COMPLETE", 1, "j", {}), event("a", "OTHER", 2, "j", {"inputs": ["late"]})
    job, output = ("n", "j"), [("n", "o")]
    assert query_rows(index_writer, "select job_version from runs", start) == [(None,)]
    assert query_rows(index_writer, "select job_version from runs", start, end) == [
        (compute_job_version(job, [("n", "i")], output, "u@1"),)
    ]
    both = [("n", "late"), ("n", "i")]
    assert query_rows(index_writer, "select job_version from runs", start, end, late) == [
        (compute_job_version(job, both, output, "u@1"),)
    ]


def test_current_job_version_is_that_of_the_last_run_or_later_declaration(index_writer: IndexWriter) -> None:
    first, second = event("a", "COMPLETE", 1, "j", {"inputs": ["i"]}), event("b", "FAIL", 3, "j", {})
    again, declared = event("c", "COMPLETE", 2, "j", {"inputs": ["i"]}), event(None, None, 4, "j", {"inputs": ["i"]})
    version_with_input, version_without_input = (
        compute_job_version(("n", "j"), [("n", "i")], [("n", "o")]),
        compute_job_version(("n", "j"), [], [("n", "o")]),
    )
    current = "select version from current_job_versions"
    assert query_rows(index_writer, current, first, second, again) == [(version_without_input,)]
    assert query_rows(index_writer, current, first, second, again, declared) == [(version_with_input,)]
    versions = query_rows(
        index_writer,
        "select version, inputs, first_run_uuid, latest_run_uuid, run_count, first_seq, last_seq from job_versions",
        *(first, second, again, declared),
    )
    inputs = '[{"namespace":"n","name":"i"}]'
    assert sorted(versions) == sorted(
        [(version_with_input, inputs, "a", "c", 2, 0, 3), (version_without_input, "[]", "b", "b", 1, 1, 1)]
    )


def test_dataset_versions_per_completed_write_and_declared_state(index_writer: IndexWriter) -> None:
    schema = {"schema": {"fields": [{"name": "x"}]}, "rows": {"rowCount": 3}}
    log = [
        event("a", "START", 0, "j", schema),
        event("a", "COMPLETE", 1, "j", {}),
        event("b", "FAIL", 2, "j", schema),
        event(None, None, 3, None, schema),
        event(None, None, 2, None, schema),
        event(None, None, 4, None, {}),
    ]
    versions = query_rows(
        index_writer, "select run_uuid, row_count, created_at, schema_id, last_seq from dataset_versions", *log
    )
    assert [(run, count, seq) for run, count, _, _, seq in versions] == [("a", 3, 1), (None, None, 4)]
    assert len({schema_id for *_, schema_id, _ in versions}) == 1
    assert versions[1][2] - versions[0][2] == 60_000_000
    assert query_rows(index_writer, "select fields from schemas", *log) == [('[{"name":"x"}]',)]
