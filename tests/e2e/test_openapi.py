"""Tests that the server conforms to its OpenAPI document, with generated requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient
from tests.support.event_generator import Scenario
from tests.support.fixtures import Clock, NotebookSession, PostgresSchemas

from clew.api.app import create_app
from clew.api.v2.notebook_runs import NOTEBOOK_RUN_OPERATIONS
from clew.api.v2.routes import OPERATIONS, operation_routes
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.query.context import QueryResources

ALL_OPERATIONS = (*OPERATIONS, *NOTEBOOK_RUN_OPERATIONS)
SESSION = "5eed0001"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# Existing and almost existing ids: random names are rejected too early to test more.
NODE_IDS = (
    "dataset:file:/data/orders.csv",
    "datasetField:file:/data/totals.parquet:sum",
    "job:jobs:orders",
    f"run:{Scenario.run_id('orders 0')}",
    "dataset:file:/data/orders",
    "job:::",
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("world")
    is_file = request.param == "sqlite"
    scenario = Scenario(
        folder, None if is_file else PostgresSchemas(request.getfixturevalue("postgres"), folder).empty("api")
    )
    source, target = "file:/data/orders.csv", "file:/data/totals.parquet"
    scenario.run("orders", source, target, columns={target: {"sum": f"{source}.price"}})
    index_location = scenario.index_events()
    session = NotebookSession(Clock(), SESSION, "orders")
    session.run("START")
    session.operation("load", "df@1", {"price": [("orders.csv", "price")]}, code="pd.read_csv(path)")
    session.operation("save", "totals.parquet", {"sum": [("df@1", "price", "AGGREGATION")]}, error="'prise'")
    session.run("FAIL")
    extractor = ChangeExtractor()
    for seq, (stream, event) in enumerate(session.events, 100):
        extractor.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(index_location) as writer:
        writer.apply("notebook/0", extractor.changes())
    lake = Lake(folder / "lake")
    lake.create_or_validate()
    with QueryResources(scenario.index, lake.root) as resources:
        yield create_app(operation_routes(resources))


@pytest.mark.parametrize("path", [operation.path for operation in ALL_OPERATIONS])
def test_responses_conform_to_the_document(app: Any, path: str) -> None:
    schema = schemathesis.openapi.from_asgi("/api/v2/openapi.json", app)

    # The first lake access loads Arrow, which may take a second: no deadline.
    @settings(
        max_examples=20,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path]["GET"].as_strategy(), node_id=st.none() | st.sampled_from(NODE_IDS))
    def send_request(case: Any, node_id: str | None) -> None:
        for name in {"nodeId", "from", "to"} & set(case.query or {}) if node_id else ():
            case.query[name] = node_id
        if node_id and "column" in (case.query or {}):
            case.query["column"] = "totals.parquet.sum"
        if node_id and "sessionId" in case.path_parameters:
            case.path_parameters["sessionId"] = SESSION
        case.call_and_validate(checks=CHECKS)

    send_request()


def test_document_contains_every_operation(app: Any) -> None:
    with TestClient(app) as client:
        document = client.get("/api/v2/openapi.json").json()
    assert set(document["paths"]) == {operation.path for operation in ALL_OPERATIONS}
    names = [parameter["name"] for parameter in document["paths"]["/api/v2/lineage"]["get"]["parameters"]]
    assert names == ["nodeId", "column", "direction", "depth", "limit", "asOf", "rollUp", "frames"]
