"""Texts that PostgreSQL cannot keep as they are: names longer than its indexes take, and NULs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.data_dir import DatabaseUrl
from clew.events.streams import decode_event
from clew.index.backends.postgres.connection import MAX_NAME_BYTES, sanitize_name
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

# Which no compression makes short.
LONG = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(4000))


@pytest.mark.parametrize("text", ["", "orders", "x" * MAX_NAME_BYTES, "é" * (MAX_NAME_BYTES // 2)])
def test_most_names_are_kept(text: str) -> None:
    assert sanitize_name(text) == text


@pytest.mark.parametrize("text", ["x" * (MAX_NAME_BYTES + 1), "é" * MAX_NAME_BYTES, LONG])
def test_a_long_name_is_cut_and_stays_another_than_those_that_begin_alike(text: str) -> None:
    assert len(sanitize_name(text).encode()) <= MAX_NAME_BYTES
    assert sanitize_name(text)[:100] == text[:100]
    assert sanitize_name(text) != sanitize_name(text + "x")
    assert sanitize_name(sanitize_name(text)) == sanitize_name(text)


def event(dataset: str, job: str, kind: str) -> dict[str, Any]:
    other = {"namespace": "n", "name": f"{dataset} alias"}
    source = {"inputFields": [{"namespace": "n", "name": dataset, "field": dataset}]}
    return {
        "eventTime": "2026-01-01T10:00:00Z",
        "eventType": kind,
        "run": {"runId": job, "facets": {"note": {"text": job}, "parent": {"run": {"runId": f"{job} parent"}}}},
        "job": {"namespace": job, "name": job, "facets": {"lineage": {"entries": [entry(job)]}}},
        "inputs": [{"namespace": dataset, "name": dataset, "facets": {"symlinks": {"identifiers": [other]}}}],
        "outputs": [{"namespace": "n", "name": dataset, "facets": {"columnLineage": {"fields": {dataset: source}}}}],
    }


def entry(job: str) -> dict[str, Any]:
    own = {"type": "JOB", "namespace": "n", "name": job}
    return {**own, "inputs": [{**own, "name": f"{job} before"}]}


@pytest.mark.parametrize("text", [LONG, "with a \x00 in it", f"{LONG}\x00"], ids=["long", "nul", "both"])
def test_events_with_such_names_are_taken_in_and_found_by_what_became_of_them(text: str, postgres_places: Any) -> None:
    place: DatabaseUrl = postgres_places.empty("fitting")
    with IndexWriter(place) as sink:
        for seq, kind in enumerate(("START", "COMPLETE")):
            observer = ChangeExtractor()
            observer.add(decode_event("openlineage", json.dumps(event(text, text, kind)).encode()), f"{seq:032x}", seq)
            sink.apply(f"app/{seq}", observer.changes())
    kept = sanitize_name(text)
    with IndexReader(place) as reader:
        assert reader.has_job(kept, kept)
        assert json.loads(reader.facets("run", kept)["note"]) == {"text": text}
        assert [row["source_column"] for row in reader.edges_into("n", kept, None, kept)] == [kept]
        (job,) = reader.query("select * from runs join jobs on namespace = job_namespace and name = job_name")
        assert job["state"] == "COMPLETED"
        assert job["job_version"] is not None
        links = reader.query("select upstream_name from job_dependencies")
        assert [row["upstream_name"] for row in links] == [sanitize_name(f"{text} before")]
        assert reader.query("select canonical_name from dataset_aliases")
