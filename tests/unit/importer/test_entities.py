"""Tests of annotations and events of entities."""

from __future__ import annotations

import json

from clew.importer.entities import EntityDocuments, PutRun, SchemaColumn, annotation_events
from clew.query.entities.annotations import (
    Annotations,
    NamespaceAnnotation,
    SourceAnnotation,
    TagAnnotation,
    annotation_body,
    annotation_key,
)


def current(*annotations: tuple[tuple[str, ...], object]) -> Annotations:
    facets = [(annotation_key(*identity), annotation_body(value), 0) for identity, value in annotations]  # type: ignore[arg-type]
    return Annotations((), facets)


def test_annotations_of_users_remain() -> None:
    documents = EntityDocuments(
        current(
            (("namespace", "db"), NamespaceAnnotation("mine")),
            (("source", "w"), SourceAnnotation("POSTGRESQL", "mine")),
            (("tags", "dataset", "db", "orders"), TagAnnotation(((None, "MINE"),))),
        )
    )
    documents.add_namespace("db", "theirs", None)
    documents.add_source("w", "MYSQL", "theirs", None)
    documents.add_tags("dataset", "db", "orders", [(None, "THEIRS")])
    assert list(documents.annotations) == [annotation_key("tags", "dataset", "db", "orders")]
    (body,) = documents.annotations.values()
    assert json.loads(body)["annotation"]["added"] == [[None, "MINE"], [None, "THEIRS"]]


def test_defaults_of_marquez_are_no_annotations() -> None:
    documents = EntityDocuments()
    documents.add_namespace("a", "anonymous", None)
    documents.add_namespace("b", None, "")
    documents.add_source("default", "POSTGRESQL", "", None)
    assert documents.annotations == {}


def test_the_same_state_gives_the_same_events() -> None:
    def events() -> list[bytes]:
        documents = EntityDocuments()
        documents.add_job("ns", "job", "2024-01-01T00:00:00Z", location="https://l", inputs=[("b", "x"), ("a", "x")])
        documents.add_dataset("db", "d", "2024-01-01T00:00:00Z", fields=[SchemaColumn("id", "int")])
        documents.add_run(PutRun("r", ("ns", "job"), "2024-01-01T00:00:00Z", "RUNNING"))
        return documents.events

    assert events() == events()
    job, dataset, run = map(json.loads, events())
    assert [item["namespace"] for item in job["inputs"]] == ["a", "b"]
    assert job["job"]["facets"]["sourceCodeLocation"]["url"] == "https://l"
    assert dataset["dataset"]["facets"]["schema"]["fields"] == [{"name": "id", "type": "int"}]
    assert run["eventType"] == "START"


def test_many_annotations_are_several_events() -> None:
    annotations = [(annotation_key("tag", str(number)), b"{}") for number in range(1_200)]
    events = [json.loads(event)["dataset"]["facets"] for event in annotation_events(annotations)]
    assert [len(facets) for facets in events] == [500, 500, 200]
