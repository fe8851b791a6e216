"""Tests of what is read from a Marquez database beside its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.marquez_database import START, MarquezDatabase, row_id, run_event

from clew.data_dir import DatabaseUrl
from clew.events.decoding import RejectedError
from clew.events.streams import Stream, decode_event
from clew.importer.database_entities import read_entities, read_job_aliases, read_version_aliases
from clew.importer.entities import EntityDocuments
from clew.importer.marquez_database import connect_marquez, read_schema
from clew.query.entities.aliases import JobAlias, VersionAlias


def read(database: MarquezDatabase) -> EntityDocuments:
    documents, url = EntityDocuments(), DatabaseUrl(database.url, Path())
    with connect_marquez(url) as connection:
        read_entities(connection, read_schema(connection, url), documents)
    return documents


def annotation_values(documents: EntityDocuments) -> dict[tuple[str, ...], Any]:
    return {
        tuple(json.loads(key.removeprefix("clew_annotation"))): json.loads(body)["annotation"]
        for key, body in documents.annotations.items()
    }


def events(documents: EntityDocuments) -> list[dict[str, Any]]:
    for body in documents.events:
        try:
            decode_event(Stream.OPENLINEAGE, body)
        except RejectedError as error:
            pytest.fail(str(error))
    return [json.loads(body) for body in documents.events]


def test_what_events_contain_is_not_added(marquez: MarquezDatabase) -> None:
    marquez.store([run_event(number, kind, "dag") for number in range(3) for kind in ("START", "COMPLETE")])
    documents = read(marquez)
    assert annotation_values(documents) == {}
    # Also no dataset that is only read and has no facets.
    assert events(documents) == []


def test_tags_and_their_mappings(current: MarquezDatabase) -> None:
    current.store([run_event(number, "COMPLETE", "dag") for number in range(3)])
    dataset = row_id("dataset", "db", "out0")
    current.tag("PII", "personal", dataset=dataset, dataset_field=row_id(dataset, "id"))
    current.tag("GOLD", dataset=dataset, job=row_id("job", "jobs", "dag.job1"))
    assert annotation_values(read(current)) == {
        ("tag", "PII"): {"description": "personal"},
        ("tag", "GOLD"): {"description": None},
        ("tags", "dataset", "db", "out0"): {"added": [[None, "GOLD"], [None, "PII"], ["id", "PII"]], "removed": []},
        ("tags", "job", "jobs", "job1"): {"added": [[None, "GOLD"]], "removed": []},
    }


def test_owners_sources_and_deletions(current: MarquezDatabase) -> None:
    current.store([run_event(number) for number in range(3)])
    current.execute("update namespaces set current_owner_name = 'data team', description = 'tables' where name = 'db'")
    for name, url in (("default", ""), ("warehouse", "jdbc:postgresql://w/db")):
        current.execute(
            "insert into sources values (%s, 'POSTGRESQL', '2024-01-02Z', now(), %s, %s, 'd')", row_id(name), name, url
        )
    current.execute("update jobs set is_hidden = true where name = 'job1'")
    current.execute("update datasets set is_hidden = true where name = 'out2'")
    created = dict.fromkeys(("created_at", "updated_at"), "2024-05-06T07:08:10Z")
    made = dict.fromkeys(("created_at", "updated_at"), "2024-01-02T00:00:00Z")
    assert annotation_values(read(current)) == {
        ("namespace", "db"): {"owner": "data team", "description": "tables", **created},
        ("source", "warehouse"): {"type": "POSTGRESQL", "url": "jdbc:postgresql://w/db", "description": "d", **made},
        ("hidden", "job", "jobs", "job1"): {"is_hidden": True},
        ("hidden", "dataset", "db", "out2"): {"is_hidden": True},
    }


def test_entities_without_events(marquez: MarquezDatabase) -> None:
    marquez.store([run_event(0)])
    fields = [{"name": "id", "type": "int", "description": "key"}, {"name": "text"}]
    with marquez.connect() as connection:
        dataset = {"namespace": "db", "name": "manual", "facets": {"schema": {"fields": fields}}, "description": "mine"}
        marquez.add_dataset(connection, dataset)
        marquez.add_job(connection, ("jobs", "manual"), description="by hand")
        marquez.add_run(connection, row_id("manual run"), ("jobs", "manual"), "FAILED", START, START)
        marquez.add_run(connection, row_id("new run"), ("jobs", "manual"), "NEW", START, None)
    found = events(read(marquez))
    jobs = [event for event in found if "job" in event and "run" not in event]
    assert [(job["job"]["name"], job["job"]["facets"]["documentation"]["description"]) for job in jobs] == [
        ("manual", "by hand")
    ]
    (added,) = [event["dataset"] for event in found if event.get("dataset", {}).get("name") == "manual"]
    assert added["facets"]["documentation"]["description"] == "mine"
    assert added["facets"]["schema"]["fields"] == fields
    assert set(added["facets"]) == {"documentation", "schema"}
    runs = [(event["run"]["runId"], event["eventType"]) for event in found if "run" in event]
    manual = str(row_id("manual run"))
    assert sorted(runs) == sorted([(manual, "START"), (manual, "FAIL"), (str(row_id("new run")), "OTHER")])
    assert read(marquez).events == read(marquez).events


def test_streams_and_sources_of_entities_without_events(marquez: MarquezDatabase) -> None:
    source = row_id("kafka")
    marquez.execute(
        "insert into sources values (%s, 'KAFKA', now(), now(), 'kafka', 'kafka://broker:9092', null)", source
    )
    with marquez.connect() as connection:
        marquez.add_dataset(connection, {"namespace": "db", "name": "clicks"})
        marquez.add_job(connection, ("jobs", "follow"))
    marquez.execute("update datasets set type = 'STREAM', physical_name = 'topic', source_uuid = %s", source)
    marquez.execute("update jobs set type = 'STREAM'")
    job, dataset = (event.get("job") or event["dataset"] for event in events(read(marquez)))
    assert job["facets"]["jobType"]["processingType"] == "STREAMING"
    facets = dataset["facets"]
    assert (facets["dataSource"]["name"], facets["dataSource"]["uri"]) == ("kafka", "kafka://broker:9092")
    assert facets["clew_marquezDataset"].items() >= {"type": "STREAM", "physicalName": "topic"}.items()


def test_former_addresses(current: MarquezDatabase) -> None:
    current.store([run_event(0, "COMPLETE", "dag"), run_event(1)])
    prefixed = run_event(2, "COMPLETE", "dag")
    prefixed["job"]["name"] = "dag.job2"
    current.store([prefixed])
    url = DatabaseUrl(current.url, Path())
    with connect_marquez(url) as connection:
        schema = read_schema(connection, url)
        assert list(read_job_aliases(connection, schema)) == [JobAlias("jobs", "dag.job0", "job0")]
        versions = list(read_version_aliases(connection, schema))
    run = str(row_id("run", 1))
    version = row_id("dataset version", "db", "out1", row_id("run", 1))
    assert VersionAlias(str(version), "db", "out1", run) in versions
    assert VersionAlias(str(row_id("hash", version)), "db", "out1", run) in versions
    assert VersionAlias(str(row_id("job version", "jobs", "job1")), "jobs", "job1", run) in versions
