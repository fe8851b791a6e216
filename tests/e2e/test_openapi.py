"""The OpenAPI document holds what the server does: whatever it allows is asked, and nothing fails."""

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
from tests.support.event_generator import World
from tests.support.fixtures import Clock, PostgresPlaces, Session

from clew.api.app import create_app
from clew.api.v2.notebook_runs import NOTEBOOK_RUN_OPERATIONS
from clew.api.v2.routes import OPERATIONS, operation_routes
from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.query.context import QueryResources
from clew.query.service import NotebookService

QUESTIONS = (*OPERATIONS, *NOTEBOOK_RUN_OPERATIONS)
SESSION = "5eed0001"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

# What is there, and what is nearly there: names made at random lead no further than the door.
KNOWN = (
    "dataset:file:/data/orders.csv",
    "datasetField:file:/data/totals.parquet:sum",
    "job:jobs:orders",
    f"run:{World.run_id('orders 0')}",
    "dataset:file:/data/orders",
    "job:::",
)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("world")
    is_file = request.param == "sqlite"
    world = World(folder, None if is_file else PostgresPlaces(request.getfixturevalue("postgres"), folder).empty("api"))
    source, target = "file:/data/orders.csv", "file:/data/totals.parquet"
    world.run("orders", source, target, columns={target: {"sum": f"{source}.price"}})
    place = world.tell()
    session = Session(Clock(), SESSION, "orders")
    session.run("START")
    session.operation("load", "df@1", {"price": [("orders.csv", "price")]}, code="pd.read_csv(path)")
    session.operation("save", "totals.parquet", {"sum": [("df@1", "price", "AGGREGATION")]}, error="'prise'")
    session.run("FAIL")
    observer = ChangeExtractor()
    for seq, (stream, event) in enumerate(session.events, 100):
        observer.add(decode_event(stream, json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(place) as sink:
        sink.apply("notebook/0", observer.changes())
    lake = Lake(folder / "lake")
    lake.create_or_validate()
    with QueryResources(world.index, lake.root) as holdings:
        yield create_app(lambda: NotebookService(world.index), operation_routes(holdings))


@pytest.mark.parametrize("path", [question.path for question in QUESTIONS])
def test_whatever_the_document_allows_is_answered(app: Any, path: str) -> None:
    schema = schemathesis.openapi.from_asgi("/api/v2/openapi.json", app)

    # The first look into the lake loads Arrow: a second is no fault.
    @settings(
        max_examples=20,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path]["GET"].as_strategy(), known=st.none() | st.sampled_from(KNOWN))
    def ask(case: Any, known: str | None) -> None:
        for name in {"nodeId", "from", "to"} & set(case.query or {}) if known else ():
            case.query[name] = known
        if known and "column" in (case.query or {}):
            case.query["column"] = "totals.parquet.sum"
        if known and "sessionId" in case.path_parameters:
            case.path_parameters["sessionId"] = SESSION
        case.call_and_validate(checks=CHECKS)

    ask()


def test_the_document_is_served_and_names_every_question(app: Any) -> None:
    with TestClient(app) as client:
        document = client.get("/api/v2/openapi.json").json()
    assert set(document["paths"]) == {question.path for question in QUESTIONS}
    names = [one["name"] for one in document["paths"]["/api/v2/lineage"]["get"]["parameters"]]
    assert names == ["nodeId", "column", "direction", "depth", "limit", "asOf", "rollUp", "frames"]
