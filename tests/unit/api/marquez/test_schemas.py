"""Tests of the documents of Marquez's API: fields in Marquez's order, with correct values."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id

RUN = (
    "id createdAt updatedAt nominalStartTime nominalEndTime state startedAt endedAt durationMs args jobVersion "
    "inputDatasetVersions outputDatasetVersions facets"
)
JOB = (
    "id type name simpleName parentJobName parentJobUuid createdAt updatedAt namespace inputs outputs location "
    "description latestRun latestRuns facets currentVersion labels tags"
)
DATASET = (
    "id type name physicalName createdAt updatedAt namespace sourceName fields tags lastModifiedAt "
    "lastLifecycleState description currentVersion columnLineage facets deleted"
)
DATASET_VERSION = (
    "id type name physicalName createdAt version namespace sourceName fields tags lifecycleState description "
    "currentSchemaVersion createdByRun facets"
)
WAREHOUSE = "/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets"


@pytest.mark.parametrize(
    ("path", "keys", "fields"),
    [
        ("/namespaces", ("namespaces", 0), "name createdAt updatedAt ownerName description isHidden"),
        ("/namespaces/shop", (), "name createdAt updatedAt ownerName description isHidden"),
        ("/sources", ("sources", 0), "type name createdAt updatedAt connectionUrl description"),
        ("/sources/warehouse", (), "type name createdAt updatedAt connectionUrl description"),
        ("/jobs", ("jobs", 0), JOB),
        ("/jobs", ("jobs", 0, "latestRun"), RUN),
        ("/namespaces/shop/jobs/daily.load", (), JOB),
        ("/namespaces/shop/jobs/daily.load/runs", ("runs", 0), RUN),
        (
            "/namespaces/shop/jobs/daily.load/versions",
            ("versions", 0),
            "id name createdAt version namespace location inputs outputs latestRun",
        ),
        (WAREHOUSE, ("datasets", 0), DATASET),
        (f"{WAREHOUSE}/public.totals", (), DATASET),
        (f"{WAREHOUSE}/public.totals/versions", ("versions", 0), DATASET_VERSION),
        (f"/jobs/runs/{run_id('sum-1')}", (), RUN),
        (f"/jobs/runs/{run_id('sum-1')}/facets?type=run", (), "runId facets"),
        ("/stats/lineage-events?period=DAY", (0,), "startInterval endInterval fail start complete abort"),
        ("/stats/jobs?period=DAY", (23,), "startInterval endInterval count"),
        ("/search?q=ord", (), "totalCount results"),
        ("/search?q=ord", ("results", 0), "type name updatedAt namespace nodeId"),
    ],
)
def test_fields_are_in_the_order_of_marquez(shared_shop: Shop, path: str, keys: tuple[Any, ...], fields: str) -> None:
    value = shared_shop.get(path)
    for key in keys:
        value = value[key]
    assert list(value) == fields.split()


def test_run_document(shared_shop: Shop) -> None:
    run = shared_shop.get(f"/jobs/runs/{run_id('sum-1')}")
    orders, totals = run["inputDatasetVersions"], run["outputDatasetVersions"]
    assert (run["state"], run["startedAt"], run["endedAt"], run["durationMs"]) == (
        "COMPLETED",
        "2026-01-01T10:03:00Z",
        "2026-01-01T10:05:00Z",
        120_000,
    )
    assert run["nominalStartTime"] == "2026-01-01T00:00:00Z"
    assert run["args"] == {
        "nominal_start_time": "2026-01-01T00:00:00Z",
        "run_id": run_id("day-1"),
        "name": "daily",
        "namespace": "shop",
    }
    assert set(run["facets"]) == {"nominalTime", "parent"}
    assert [version["datasetVersionId"]["name"] for version in (*orders, *totals)] == ["public.orders", "public.totals"]


def test_a_late_start_does_not_reopen_a_run(shop: Shop) -> None:
    shop.send([event("START", 0, "sum-1", "daily.sum"), event("RUNNING", 4, "sum-1", "daily.sum")])
    run = shop.get(f"/jobs/runs/{run_id('sum-1')}")
    assert (run["state"], run["startedAt"]) == ("COMPLETED", "2026-01-01T10:00:00Z")


def test_a_job_has_its_own_latest_run(shared_shop: Shop) -> None:
    job = shared_shop.get("/namespaces/shop/jobs/daily.sum")
    assert job["latestRun"]["id"] == run_id("sum-1")
    assert (job["simpleName"], job["parentJobName"]) == ("sum", "daily")
    assert job["inputs"] == [{"namespace": "postgres://db:5432", "name": "public.orders"}]
    assert [run["id"] for run in shared_shop.get("/namespaces/shop/jobs/daily.load")["latestRuns"]] == [
        run_id("load-2"),
        run_id("load-1"),
    ]


def test_a_start_without_datasets_removes_no_edges(shop: Shop) -> None:
    shop.send([event("START", 20, "sum-2", "daily.sum")])
    job = shop.get("/namespaces/shop/jobs/daily.sum")
    assert (job["latestRun"]["state"], len(job["inputs"]), len(job["outputs"])) == ("RUNNING", 1, 1)


def test_a_dataset_version_has_one_id_everywhere(shared_shop: Shop) -> None:
    written_version = shared_shop.get(f"/jobs/runs/{run_id('load-1')}")["outputDatasetVersions"][0]["datasetVersionId"][
        "version"
    ]
    read_version = shared_shop.get(f"/jobs/runs/{run_id('sum-1')}")["inputDatasetVersions"][0]["datasetVersionId"][
        "version"
    ]
    versions = shared_shop.get(f"{WAREHOUSE}/public.orders/versions")
    current = shared_shop.get(f"{WAREHOUSE}/public.orders")["currentVersion"]
    upstream = shared_shop.get("/runlineage/upstream", runId=run_id("sum-1"))["runs"][0]["inputs"][0]
    assert written_version == read_version == versions["versions"][1]["version"] == upstream["version"]
    assert (current, versions["totalCount"]) == (versions["versions"][0]["version"], 2)
    assert shared_shop.get(f"{WAREHOUSE}/public.orders/versions/{written_version}")["createdByRun"]["id"] == run_id(
        "load-1"
    )
    assert upstream["producedByRunId"] == run_id("load-1")


def test_resolves_job_versions(shared_shop: Shop) -> None:
    job = shared_shop.get("/namespaces/shop/jobs/daily.sum")
    version = shared_shop.get(f"/namespaces/shop/jobs/daily.sum/versions/{job['currentVersion']}")
    assert version["latestRun"]["id"] == run_id("sum-1")
    assert job["latestRun"]["jobVersion"] == version["id"]


def test_column_lineage_has_transformations(shared_shop: Shop) -> None:
    (column,) = shared_shop.get(f"{WAREHOUSE}/public.totals")["columnLineage"]
    (source,) = column["inputFields"]
    assert (column["name"], source["dataset"], source["field"]) == ("total", "public.orders", "price")
    assert (source["transformationType"], source["transformationDescription"]) == ("AGGREGATION", "sum")
    assert source["transformations"] == [
        {"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum", "masking": False}
    ]


def test_every_dataset_of_a_page_has_its_facets(empty_shop: Shop) -> None:
    outputs = [dataset(f"t{number:02}", "id") for number in range(30)]
    empty_shop.send([event("COMPLETE", 1, "wide", outputs=outputs)])
    page = empty_shop.get(WAREHOUSE, limit=25)
    assert (len(page["datasets"]), page["totalCount"]) == (25, 30)
    assert all(set(item["facets"]) == {"dataSource", "schema"} for item in page["datasets"])


@pytest.mark.parametrize(
    ("states", "jobs"),
    [
        ([], {"daily.load", "daily.sum", "hourly.check", "daily"}),
        (["FAILED"], {"hourly.check"}),
        (["FAILED", "COMPLETED"], {"daily.load", "daily.sum", "hourly.check"}),
        (["ABORTED"], set()),
    ],
)
def test_total_count_respects_the_filter(shared_shop: Shop, states: list[str], jobs: set[str]) -> None:
    page = shared_shop.get("/jobs", lastRunStates=states)
    assert ({job["name"] for job in page["jobs"]}, page["totalCount"]) == (jobs, len(jobs))


def test_pages_of_jobs_are_ordered_by_update_time(shared_shop: Shop) -> None:
    names = [shared_shop.get("/namespaces/shop/jobs", limit=1, offset=offset)["jobs"][0]["name"] for offset in range(4)]
    assert names == ["hourly.check", "daily", "daily.load", "daily.sum"]
    assert shared_shop.get("/namespaces/nowhere/jobs") == {"jobs": [], "totalCount": 0}


def test_a_run_known_only_as_a_parent_has_the_times_of_its_children_and_is_listed(shared_shop: Shop) -> None:
    run = shared_shop.get(f"/jobs/runs/{run_id('day-1')}")
    assert (run["state"], run["createdAt"], run["updatedAt"]) == (
        "NEW",
        "2026-01-01T10:01:00Z",
        "2026-01-01T10:05:00Z",
    )
    page = shared_shop.get("/namespaces/shop/jobs/daily/runs")
    assert ([item["id"] for item in page["runs"]], page["totalCount"]) == ([run_id("day-2"), run_id("day-1")], 2)
    assert shared_shop.get("/namespaces/shop/jobs/daily/runs", limit=1, offset=1)["runs"][0] == run
    job = shared_shop.get("/namespaces/shop/jobs/daily")
    assert (job["createdAt"], job["updatedAt"]) == ("2026-01-01T10:01:00Z", "2026-01-01T10:08:00Z")
    assert [item["id"] for item in job["latestRuns"]] == [run_id("day-2"), run_id("day-1")]


def test_a_job_keeps_its_parent_after_a_run_without_the_facet(empty_shop: Shop) -> None:
    empty_shop.send([event("COMPLETE", 1, "one", parent="day"), event("COMPLETE", 2, "two")])
    job = empty_shop.get("/namespaces/shop/jobs/daily.load")
    assert (job["parentJobName"], job["simpleName"], job["latestRun"]["id"]) == ("daily", "load", run_id("two"))


def test_reads_the_parent_facet_by_its_earlier_name(empty_shop: Shop) -> None:
    parent = {"run": {"runId": run_id("day")}, "job": {"namespace": "shop", "name": "daily"}}
    empty_shop.send([event("COMPLETE", 1, "one", run_facets={"parentRun": parent})])
    assert empty_shop.get("/namespaces/shop/jobs/daily.load")["parentJobName"] == "daily"
    run = empty_shop.get(f"/jobs/runs/{run_id('one')}")
    assert (run["args"]["run_id"], run["facets"]["parent"]) == (run_id("day"), parent)
    assert empty_shop.get(f"/jobs/runs/{run_id('day')}")["createdAt"] == "2026-01-01T10:01:00Z"


def test_inputs_and_outputs_without_a_known_write_have_a_stable_version(empty_shop: Shop) -> None:
    read, written = dataset("public.orders", "id"), dataset("public.totals", "total")
    empty_shop.send([event("START", 1, "one", inputs=[read], outputs=[written])])
    first = empty_shop.get(f"/jobs/runs/{run_id('one')}")
    empty_shop.send([event("COMPLETE", 2, "one", inputs=[read], outputs=[written])])
    second = empty_shop.get(f"/jobs/runs/{run_id('one')}")
    for key in ("inputDatasetVersions", "outputDatasetVersions"):
        (before,), (after,) = first[key], second[key]
        assert str(UUID(before["datasetVersionId"]["version"])) == before["datasetVersionId"]["version"]
        assert before["datasetVersionId"] == after["datasetVersionId"]
    version = second["outputDatasetVersions"][0]["datasetVersionId"]["version"]
    assert empty_shop.get(f"{WAREHOUSE}/public.totals/versions/{version}")["version"] == version


def test_the_schema_of_an_earlier_version_is_a_complete_facet(empty_shop: Shop) -> None:
    schema = {"_producer": "https://example.org/p", "_schemaURL": "https://example.org/s", "fields": [{"name": "id"}]}
    for minute, extra in ((1, []), (2, [{"name": "price"}])):
        facets = {"schema": {**schema, "fields": [*schema["fields"], *extra]}}
        empty_shop.send([event("COMPLETE", minute, f"r{minute}", outputs=[dataset("public.orders", facets=facets)])])
    first = empty_shop.get(f"{WAREHOUSE}/public.orders/versions")["versions"][1]
    assert first["facets"]["schema"] == schema
    assert str(UUID(first["currentSchemaVersion"])) == first["currentSchemaVersion"]
    assert (first["lifecycleState"], empty_shop.get(f"{WAREHOUSE}/public.orders")["lastLifecycleState"]) == ("", "")


def test_a_location_that_is_not_a_url_is_null(empty_shop: Shop) -> None:
    for name, facet in (
        ("git", {"type": "git", "repoUrl": "git@host:shop", "path": "a.py"}),
        ("web", {"url": "https://h/a"}),
    ):
        empty_shop.send([event("COMPLETE", 1, name, name, job_facets={"sourceCodeLocation": facet})])
    locations = [empty_shop.get(f"/namespaces/shop/jobs/{name}")["location"] for name in ("git", "web")]
    assert locations == [None, "https://h/a"]


@pytest.mark.parametrize(
    ("received", "served"),
    [
        ("2026-01-02T10:00:00.123456", "2026-01-02T10:00:00.123456Z"),
        ("2026-01-02", "2026-01-02T00:00:00Z"),
        ("2026-01-02T10:00:00+0200", "2026-01-02T08:00:00Z"),
        ("2026-01-02T10:00:00.000+02:00", "2026-01-02T10:00:00.000+02:00"),
        ("2026-01-02T10:00:00.123456789Z", "2026-01-02T10:00:00.123456789Z"),
    ],
)
def test_event_times_are_served_with_a_zone(empty_shop: Shop, received: str, served: str) -> None:
    empty_shop.send([{**event("START", 1, "one"), "eventTime": received, "x": 1.5}])
    (document,) = empty_shop.get("/events/lineage")["events"]
    assert (document["eventTime"], document["x"], list(document)[:2]) == (served, 1.5, ["eventType", "eventTime"])


def test_facets_of_datasets_of_a_run_are_an_empty_body(shared_shop: Shop) -> None:
    path = f"/api/v1/jobs/runs/{run_id('load-1')}/facets?type=dataset"
    response = shared_shop.client.get(path)
    assert (response.status_code, response.content) == (200, b"")


def test_entities_without_events_have_times(empty_shop: Shop) -> None:
    empty_shop.send([event("START", 1, "one")])
    for path in ("/sources", "/namespaces"):
        empty_shop.request("PUT", f"{path}/own", body={"ownerName": "a", "type": "S3", "connectionUrl": "s3://x"})
    for name, items in (("sources", empty_shop.get("/sources")), ("namespaces", empty_shop.get("/namespaces"))):
        assert all(item["createdAt"] and item["updatedAt"] for item in items[name])


@pytest.mark.parametrize(
    ("received", "served"),
    [
        ("jdbc:postgresql://db:5432/shop?user=a", "jdbc:postgresql://db:5432/shop?user=a"),
        ("my_host:5432/db", "my_host%3A5432/db"),
        ("s3://bucket/a b/100%/50%25/{x}", "s3://bucket/a%20b/100%25/50%25/%7Bx%7D"),
        ("http://[::1]:80/a[0]#b#c", "http://[::1]:80/a%5B0%5D#b%23c"),
        ("", ""),
    ],
)
def test_the_url_of_a_source_is_a_uri(empty_shop: Shop, received: str, served: str) -> None:
    facets = {"dataSource": {"name": "odd", "uri": received}}
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[dataset("t", facets=facets)])])
    assert empty_shop.get("/sources/odd")["connectionUrl"] == served


def test_last_run_states_and_total_count(shared_shop: Shop) -> None:
    assert shared_shop.get("/jobs", lastRunStates="OTHER") == {"totalCount": 0, "jobs": []}
    assert next(iter(shared_shop.get("/jobs", limit=1))) == "totalCount"
    assert next(iter(shared_shop.get(WAREHOUSE, limit=1))) == "totalCount"


def test_finds_a_dataset_by_any_of_its_names(empty_shop: Shop) -> None:
    link = {"symlinks": {"identifiers": [{"namespace": "hive", "name": "shop.orders", "type": "TABLE"}]}}
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[dataset("public.orders", "id", facets=link)])])
    document = empty_shop.get("/namespaces/hive/datasets/shop.orders")
    assert (document["name"], document["physicalName"]) == ("shop.orders", "public.orders")
    assert document["currentVersion"] == empty_shop.get(f"{WAREHOUSE}/public.orders")["currentVersion"]


def test_compresses_long_responses_if_accepted(shared_shop: Shop) -> None:
    compressed = shared_shop.client.get("/api/v1/jobs")
    plain = shared_shop.client.get("/api/v1/jobs", headers={"accept-encoding": "identity"})
    assert (compressed.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    assert compressed.content == plain.content
    assert int(compressed.headers["content-length"]) < len(plain.content)


def test_returns_events_as_received(shop: Shop) -> None:
    raw = b'{"eventType": "START",  "eventTime":"2026-01-02T10:00:00.000Z","run":{"runId":"r 1"},'
    raw += b'"job":{"namespace":"n","name":"j"},"x": 1.0}'
    shop.send([raw])
    response = shop.client.get("/api/v1/events/lineage?limit=1&after=2026-01-02T00:00:00Z")
    assert response.content == b'{"events":[' + raw + b'],"totalCount":1}'
    page = shop.get("/events/lineage", limit=3, before="2026-01-02T00:00:00Z")
    assert [item["eventTime"][11:16] for item in page["events"]] == ["10:10", "10:09", "10:08"]
    first = shop.get("/events/lineage", limit=1, sortDirection="asc")
    assert (first["events"][0]["eventTime"][11:16], first["totalCount"]) == ("10:01", 9)


def test_search_matches_substrings_and_sorts(shared_shop: Shop) -> None:
    assert shared_shop.get("/search", q="DAILY.")["totalCount"] == 2
    by_time = shared_shop.get("/search", q="daily", sort="updated_at", filter="job", limit=1)
    assert (by_time["totalCount"], by_time["results"][0]["nodeId"]) == (3, "job:shop:daily")
    assert shared_shop.get("/search", q="%")["totalCount"] == 0


@pytest.mark.parametrize(
    ("kind", "word", "name", "highlights"),
    [
        ("datasets", "ord", "public.orders", {"name": ["public.<em>ord</em>ers"]}),
        ("datasets", "price", "public.orders", {"facets.schema.fields.name": ["<em>price</em>"]}),
        ("jobs", "FRAUD", "daily.score", {"facets.sql.query": ["select * from <em>fraud</em>_cases"]}),
    ],
)
def test_full_text_search_highlights_matches(shop: Shop, kind: str, word: str, name: str, highlights: Any) -> None:
    sql = {"sql": {"query": "select * from fraud_cases"}}
    shop.send([event("COMPLETE", 20, "score-1", "daily.score", job_facets=sql)])
    response = shop.client.get(f"/api/v2beta/search/{kind}?q={word}").json()
    position = [hit["name"] for hit in response["hits"]].index(name)
    assert response["highlights"][position] == highlights
    hit = response["hits"][position]
    assert hit["eventType"] == "COMPLETE"
    if kind == "jobs":
        assert (hit["run_id"], hit["type"], list(hit["runFacets"])) == (run_id("score-1"), "BATCH", ["nominalTime"])
        assert list(hit) == ["run_id", "name", "namespace", "eventType", "type", "facets", "runFacets"]
    else:
        assert hit["run_id"] == run_id("load-2")
        fields = ["run_id", "name", "namespace", "eventType", "facets", "inputFacets", "outputFacets"]
        assert list(hit) == fields


def test_source_type_is_the_scheme_of_its_url(empty_shop: Shop) -> None:
    datasets = [dataset("a", facets={"dataSource": {"name": "old", "uri": "jdbc:mysql://db:3306/shop"}}), dataset("b")]
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[*datasets, {"namespace": "file", "name": "c"}])])
    sources = [
        (source["name"], source["type"], source["connectionUrl"]) for source in empty_shop.get("/sources")["sources"]
    ]
    assert sources == [
        ("default", "UNKNOWN", ""),
        ("old", "MYSQL", "jdbc:mysql://db:3306/shop"),
        ("warehouse", "POSTGRES", "postgres://db:5432/shop"),
    ]
    assert empty_shop.get("/namespaces/file/datasets/c")["sourceName"] == "default"


def test_job_versions_have_no_total(shared_shop: Shop) -> None:
    assert list(shared_shop.get("/namespaces/shop/jobs/daily.load/versions")) == ["versions"]
