"""Tests that no event breaks a list or a lookup: hostile events are rejected, or every reader serves them."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from starlette.testclient import TestClient
from tests.unit.api.test_app_equivalence import marquez_paths, page_paths, v2_paths
from tests.unit.pipeline.conftest import LocalRanges

from clew.cli.serving import build_read_app
from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.segments import end_position, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.ingest import BatchIngestor

LONG = "x" * 6000
NAMES = [
    "",
    " ",
    "/",
    "//",
    ":",
    "a:b:c",
    "#",
    "?x=1&y",
    "%00",
    "..",
    "a\x00b",
    "a\x1fb",
    "line\nbreak",
    "\u202eright to left",
    "\uffff",
    "é" * 3000,
    "🧶",
    "'; drop table jobs; --",
    '"quoted"\\',
    "[bold]",
    LONG,
]
NUMBERS = [10**400, -(10**30), 2**63, -(2**63) - 1, 1.5e300, -1, 0.5, True, "7", None, [], {}]
TIMES = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59Z", "2026-01-01T10:00:00+14:00"]
DEEP: Any = json.loads("[" * 200 + "]" * 200)


def event(number: int, **parts: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": f"2026-01-01T10:{number % 60:02}:00Z",
        "run": {"runId": f"run-{number}"},
        "job": {"namespace": "n", "name": f"job-{number}"},
        "inputs": [{"namespace": "n", "name": "in"}],
        "outputs": [{"namespace": "n", "name": f"out-{number}"}],
        "producer": "https://example.com",
        **parts,
    }


def facets_with(name: str, value: Any) -> dict[str, Any]:
    """Return an event whose facets have a name and a value at every place that is read."""
    identifier = {"namespace": name, "name": name, "field": name, "type": "DATASET"}
    job = {"type": "JOB", "namespace": name, "name": name}
    metrics = {"rowCount": value, "columnMetrics": {name: {"nullCount": value, "min": value, "max": value}}}
    statistics = {"rowCount": value, "size": value, "fileCount": value}
    transformations = [{"type": name, "subtype": name, "description": name, "masking": value}]
    source = {**identifier, "transformations": transformations}
    dataset_facets = {
        "schema": {"fields": [{"name": name, "type": name, "fields": [{"name": name, "ordinal_position": value}]}]},
        "dataSource": {"name": name, "uri": name},
        "symlinks": {"identifiers": [identifier]},
        "version": {"datasetVersion": name},
        "columnLineage": {"fields": {name: {"inputFields": [source]}}, "dataset": [source]},
        "lineage": {"inputs": [identifier, job], "fields": {name: {"inputs": [identifier]}}},
        "lifecycleStateChange": {"lifecycleStateChange": name, "previousIdentifier": identifier},
        "documentation": {"description": name},
        "ownership": {"owners": [{"name": name, "type": value}]},
        "tags": {"tags": [{"key": name, "value": name, "source": name, "field": name}]},
        "dataQualityMetrics": metrics,
        "deep": DEEP,
        name: {"value": value},
    }
    dataset = {"namespace": "n", "name": "facets", "facets": dataset_facets}
    assertions = {"assertions": [{"assertion": name, "success": value, "column": name, "actual": value}]}
    parent = {"run": {"runId": name}, "job": job}
    return {
        "run": {
            "runId": "run-of-facets",
            "facets": {
                "parent": {**parent, "root": parent},
                "nominalTime": {"nominalStartTime": name, "nominalEndTime": value},
                "errorMessage": {"message": name, "programmingLanguage": name, "stackTrace": name},
                "jobDependencies": {"upstream": [{"job": job, "run": {"runId": name}}], "downstream": [{"job": job}]},
                "processing_engine": {"name": name, "version": name},
                "marimo_execution": {"executionId": name, "sessionId": name, "line": value, "operationCode": name},
                "marimo_performance": {"durationMs": value},
                "tags": {"tags": [{"key": name, "value": value}]},
                name: DEEP,
            },
        },
        "job": {
            "namespace": "n",
            "name": "facets",
            "facets": {
                "lineage": {"entries": [{**identifier, "inputs": [job, identifier]}, {**job, "inputs": [identifier]}]},
                "sourceCodeLocation": {"url": name, "type": name},
                "sourceCode": {"sourceCode": name, "language": name},
                "sql": {"query": name},
                "jobType": {"processingType": name, "integration": name, "jobType": name},
                "documentation": {"description": name},
                "ownership": {"owners": [{"name": name}]},
                "tags": {"tags": [{"key": name, "value": name}]},
            },
        },
        "inputs": [{**dataset, "inputFacets": {"dataQualityMetrics": metrics, "dataQualityAssertions": assertions}}],
        "outputs": [{**dataset, "outputFacets": {"outputStatistics": statistics}}],
        "session_id": name,
        "execution_id": name,
    }


def lists_with(item: Any) -> dict[str, Any]:
    """Return an event whose lists have an item that is not an object."""
    items = [item, {}, None, [item], {"name": item, "namespace": item, "key": item, "field": item, "inputs": item}]
    dataset_facets = {
        "schema": {"fields": items},
        "symlinks": {"identifiers": items},
        "columnLineage": {"fields": {"c": {"inputFields": items}, "d": item}, "dataset": items},
        "lineage": {"inputs": items, "fields": {"c": {"inputs": items}, "d": item}},
        "ownership": {"owners": items},
        "tags": {"tags": items},
        "dataQualityMetrics": {"columnMetrics": {"c": item}},
    }
    dataset = {"namespace": "n", "name": "lists", "facets": dataset_facets}
    quality = {"dataQualityAssertions": {"assertions": items}, "dataQualityMetrics": {"columnMetrics": items}}
    run_facets = {"tags": {"tags": items}, "jobDependencies": {"upstream": items}, "test": {"tests": items}}
    return {
        "run": {"runId": "run-of-lists", "facets": run_facets},
        "job": {"namespace": "n", "name": "lists", "facets": {"lineage": {"entries": items}, "tags": {"tags": items}}},
        "inputs": [{**dataset, "inputFacets": quality}],
        "outputs": [dataset],
    }


def notebook_events(name: str, value: Any, number: int) -> Iterator[dict[str, Any]]:
    common = {"session_id": name, "execution_id": name, "cell_id": name, "notebook": name, "cell_name": name}
    timestamp = {"timestamp": f"2026-01-01T11:{number % 60:02}:00Z", "emitted_at": name}
    frame = {"variable_name": name, "object_id": name, "version": name, "shape": [value, value], "columns": [name]}
    edge = {"output": name, "column": name, "source": name, "source_column": name, "type": name, "subtype": name}
    yield {
        **common,
        **timestamp,
        "event_type": "cell_execution_error",
        "cell_source": name,
        "cell_source_lines": value,
        "start_memory_mb": value,
        "duration_ms": value,
        "cell_index": value,
        "error_info": {"error_type": name, "error_message": name},
    }
    yield {
        **common,
        **timestamp,
        "event_type": "dataframe_lineage",
        "operation_type": name,
        "operation_method": name,
        "operation_code": name,
        "run_id": name,
        "line": value,
        "count": value,
        "operation_parameters": {name: value},
        "input_dataframes": [frame],
        "output_dataframes": [frame],
        "column_lineage": {name: [name]},
        "column_lineage_edges": [edge],
        "performance": {"overhead_ms": value, "duration_ms": value},
    }


def hostile_events() -> Iterator[dict[str, Any] | bytes]:
    number = 0
    for name in NAMES:
        number += 1
        dataset = {"namespace": name, "name": name}
        yield event(number, job={"namespace": name, "name": name})
        yield event(number, job={"namespace": "n", "name": name}, outputs=[{"namespace": name, "name": "d"}])
        yield event(number, run={"runId": name}, inputs=[dataset], outputs=[{"namespace": "n", "name": name}])
        yield {"eventTime": "2026-01-01T10:00:00Z", "dataset": {**dataset, "facets": {"schema": {"fields": []}}}}
        yield event(number, producer=name, schemaURL=name, eventType=name)
    for name in NAMES:
        for value in (7, 10**400):
            number += 1
            yield event(number, **facets_with(name, value))
            yield from notebook_events(name, value, number)
    for odd in NUMBERS:
        number += 1
        yield event(number, **facets_with("facet", odd))
        yield from notebook_events("5eed0001", odd, number)
    for item in ("text", "a\x00b", *NUMBERS):
        number += 1
        yield event(number, **lists_with(item))
        yield event(number, **{**lists_with(item), "job": {"namespace": "n", "name": f"lists-{number}"}})
    for time in TIMES:
        number += 1
        yield event(number, eventTime=time)
    lone = json.dumps(event(number + 1, **facets_with("?", 7))).encode()
    yield lone.replace(b'"?"', b'"\\ud800"')
    yield lone.replace(b'"?"', b'"\\u0000"')
    for literal in (b"1e400", b"-1e400", b"1" * 5000, b"1e-999", b"NaN", b"-0"):
        yield json.dumps(event(number, **facets_with("facet", "?"))).encode().replace(b'"?"', literal)


@pytest.fixture(scope="module")
def hostile_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Ingest hostile events into the lake and the index."""
    home = DataDir(tmp_path_factory.mktemp("hostile") / "home").create()
    Lake(home.lake).create_or_validate()
    bodies = [item if isinstance(item, bytes) else json.dumps(item).encode() for item in hostile_events()]
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(guess_stream(body), "test", body) for body in bodies)
    ranges: Any = LocalRanges.from_ranges(split_ranges(home.log, 0, end_position(home.log), 1 << 30))
    with IndexWriter(home.index) as index, BatchIngestor(Lake(home.lake), index, "app") as ingestor:
        ingestor(ranges, 0)
    assert 0 < ingestor.stats.rejected < len(bodies) // 2
    with TestClient(build_read_app(home), raise_server_exceptions=False) as client:
        while not client.get("/api/v2/search?q=a").json()["isComplete"]:
            pass
        yield client


def all_paths(client: TestClient) -> Iterator[str]:
    def get_json(path: str) -> Any:
        response = client.get(path)
        # A client removes dots from a path, so not every name can be looked up. Server errors are found by the caller.
        return response.json() if response.status_code == 200 else defaultdict(list)

    for paths in (marquez_paths, v2_paths, page_paths):
        yield from paths(get_json)
    yield from (
        "/api/v1/jobs?limit=10000",
        "/api/v1/namespaces?limit=10000",
        "/api/v2/search?q=x",
        "/api/v1/search?q=x",
    )
    for job in get_json("/api/v1/jobs?limit=10000")["jobs"]:
        yield from node_paths("job", job)
    for namespace in get_json("/api/v1/namespaces?limit=10000")["namespaces"]:
        path = f"/api/v1/namespaces/{quote(namespace['name'], safe='')}"
        yield from (path, f"{path}/jobs?limit=10000", f"{path}/datasets?limit=10000")
        for dataset in get_json(f"{path}/datasets?limit=10000")["datasets"]:
            yield from node_paths("dataset", dataset)
    for name in NAMES:
        text = urlencode({"q": name})
        yield from (f"/api/v1/search?{text}", f"/api/v2/search?{text}", f"/api/v2beta/search/jobs?{text}")
        yield from (
            f"/api/v2/pages/search?{urlencode({'text': name})}",
            f"/api/v2/notebook-runs/{quote(name, safe='')}",
        )


def node_paths(kind: str, entity: dict[str, Any]) -> Iterator[str]:
    namespace, name = entity["namespace"], entity["name"]
    node = urlencode({"nodeId": f"{kind}:{namespace}:{name}"})
    segment = "/".join(quote(part, safe="") for part in (kind, namespace, name))
    yield f"/api/v1/namespaces/{quote(namespace, safe='')}/{kind}s/{quote(name, safe='')}"
    yield from (f"/api/v1/lineage?{node}", f"/api/v1/column-lineage?{node}&withDownstream=true")
    yield from (f"/api/v2/{kind}?{node}", f"/api/v2/lineage?{node}&direction=both", f"/api/v2/impact?{node}")
    yield from (f"/api/v2/facets?{node}", f"/api/v2/diff?{node}")
    yield f"/api/v2/pages/{kind}?{urlencode({'namespace': namespace, 'name': name})}"
    yield f"/api/v2/pages/graph?{urlencode({'node': segment})}"


def test_hostile_events_do_not_break_any_reader(hostile_shop: TestClient) -> None:
    failures = {}
    for path in dict.fromkeys(all_paths(hostile_shop)):
        response = hostile_shop.get(path)
        if response.status_code >= 500:
            failures[path[:200]] = response.text[:200]
    assert failures == {}, json.dumps(failures, indent=1)


HUGE = "9" * 400
PARAMETERS = {
    "/api/v2/pages/events": "before limit",
    "/api/v1/jobs": "limit offset",
    "/api/v1/namespaces": "limit offset",
    "/api/v1/events/lineage": "limit offset before after",
    "/api/v1/search": "limit q before after",
    "/api/v1/lineage": "nodeId depth",
    "/api/v1/column-lineage": "nodeId depth",
    "/api/v2/jobs": "cursor limit",
    "/api/v2/datasets": "cursor limit",
    "/api/v2/runs": "cursor nodeId limit",
    "/api/v2/search": "cursor q limit",
    "/api/v2/facets/history": "cursor nodeId name",
    "/api/v2/dataset": "nodeId",
    "/api/v2/lineage": "nodeId depth asOf",
    "/api/v2/pages/dataset": "namespace name",
    "/api/v2/pages/graph": "node depth asOf",
    "/api/v2/pages/runs": "text limit state",
}


def cursor(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


VALUES: dict[str, Callable[[], str]] = {
    "2**63": lambda: str(2**63),
    "-2**63-1": lambda: str(-(2**63) - 1),
    "400 digits": lambda: HUGE,
    "long name": lambda: "dataset:n:" + LONG,
    "cursor overflow": lambda: cursor(2**63),
    "cursor huge": lambda: cursor(int(HUGE)),
    "run cursor overflow": lambda: cursor(2**64, 2**64, "r"),
    "name cursor with NUL": lambda: cursor("a\x00", "b"),
    "empty": lambda: "",
    "NUL": lambda: "\x00",
}


@pytest.mark.parametrize("value", VALUES)
def test_parameters_out_of_range_are_not_server_errors(hostile_shop: TestClient, value: str) -> None:
    text, statuses = VALUES[value](), {}
    valid = {"nodeId": "job:n:job-1", "name": "schema", "q": "a", "node": "job/n/job-1", "namespace": "n"}
    for path, names in PARAMETERS.items():
        for name in names.split():
            needed = {key: valid[key] for key in names.split() if key in valid}
            response = hostile_shop.get(path, params={**needed, name: text})
            statuses[f"{path} {name}"] = response.status_code, response.text[:200]
    for position in (HUGE, str(2**63), "-1"):
        path = f"/api/v2/pages/events/openlineage/{position}"
        response = hostile_shop.get(path)
        statuses[path[:60]] = response.status_code, response.text[:200]
    for path in (f"/assets/{LONG}", f"/{LONG}", f"/assets/{'é' * 3000}", "/assets/%00", f"/api/v2/runs/{LONG}"):
        response = hostile_shop.get(path)
        statuses[path[:60]] = response.status_code, response.text[:200]
    assert {place: status for place, status in statuses.items() if status[0] >= 500} == {}
