"""Tests of names that PostgreSQL cannot store unchanged: longer than an index entry, or with NUL."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.data_dir import DatabaseUrl
from clew.events.streams import decode_event
from clew.index.backends.postgres.connection import MAX_NAME_BYTES, sanitize_name
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.lineage import latest_assertions
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

# Not compressible.
LONG = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(4000))


@pytest.mark.parametrize("text", ["", "orders", "x" * MAX_NAME_BYTES, "é" * (MAX_NAME_BYTES // 2)])
def test_sanitize_name_keeps_short_names(text: str) -> None:
    assert sanitize_name(text) == text


@pytest.mark.parametrize("text", ["x" * (MAX_NAME_BYTES + 1), "é" * MAX_NAME_BYTES, LONG])
def test_sanitize_name_shortens_long_names_to_unique_ones(text: str) -> None:
    assert len(sanitize_name(text).encode()) <= MAX_NAME_BYTES
    assert sanitize_name(text)[:100] == text[:100]
    assert sanitize_name(text) != sanitize_name(text + "x")
    assert sanitize_name(sanitize_name(text)) == sanitize_name(text)


def event(dataset: str, job: str, kind: str) -> dict[str, Any]:
    alias = {"namespace": "n", "name": f"{dataset} alias"}
    source = {"inputFields": [{"namespace": "n", "name": dataset, "field": dataset}]}
    return {
        "eventTime": "2026-01-01T10:00:00Z",
        "eventType": kind,
        "run": {"runId": job, "facets": {"note": {"text": job}, "parent": {"run": {"runId": f"{job} parent"}}}},
        "job": {"namespace": job, "name": job, "facets": {"lineage": {"entries": [entry(job)]}}},
        "inputs": [{"namespace": dataset, "name": dataset, "facets": {"symlinks": {"identifiers": [alias]}}}],
        "outputs": [{"namespace": "n", "name": dataset, "facets": {"columnLineage": {"fields": {dataset: source}}}}],
    }


def entry(job: str) -> dict[str, Any]:
    own_job = {"type": "JOB", "namespace": "n", "name": job}
    return {**own_job, "inputs": [{**own_job, "name": f"{job} before"}]}


@pytest.mark.parametrize("text", [LONG, "with a \x00 in it", f"{LONG}\x00"], ids=["long", "nul", "both"])
def test_entities_are_found_by_their_sanitized_names(text: str, postgres_schemas: Any) -> None:
    location: DatabaseUrl = postgres_schemas.empty("fitting")
    with IndexWriter(location) as index_writer:
        for seq, kind in enumerate(("START", "COMPLETE")):
            extractor = ChangeExtractor()
            extractor.add(decode_event("openlineage", json.dumps(event(text, text, kind)).encode()), f"{seq:032x}", seq)
            index_writer.apply(f"app/{seq}", extractor.changes())
    sanitized = sanitize_name(text)
    with IndexReader(location) as reader:
        assert reader.has_job(sanitized, sanitized)
        assert json.loads(reader.facets("run", sanitized)["note"]) == {"text": text}
        (assertion,) = latest_assertions(reader, [("n", sanitized)])
        assert [edge.source_column for edge in reader.asserted_edges([assertion.edge_set_id])] == [sanitized]
        (job,) = reader.query("select * from runs join jobs on namespace = job_namespace and name = job_name")
        assert job["state"] == "COMPLETED"
        assert job["job_version"] is not None
        dependencies = reader.query("select upstream_name from job_dependencies")
        assert [row["upstream_name"] for row in dependencies] == [sanitize_name(f"{text} before")]
        assert reader.query("select canonical_name from dataset_aliases")
