"""The OpenAPI document holds what the server does: whatever it allows is asked, and nothing fails."""

from __future__ import annotations

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
from tests.unit.worlds import World

from clew.api.app import create_app
from clew.api.questions import OPERATIONS, question_routes
from clew.lake.delta import Lake
from clew.query.answers import Answers
from clew.query.holdings import Holdings

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


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("world")
    world = World(folder)
    source, target = "file:/data/orders.csv", "file:/data/totals.parquet"
    world.run("orders", source, target, columns={target: {"sum": f"{source}.price"}})
    world.tell()
    lake = Lake(folder / "lake")
    lake.prepare()
    return create_app(lambda: Answers(world.index), question_routes(Holdings(world.index, lake.root)))


@pytest.mark.parametrize("path", [operation.path for operation in OPERATIONS])
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
        case.call_and_validate(checks=CHECKS)

    ask()


def test_the_document_is_served_and_names_every_question(app: Any) -> None:
    with TestClient(app) as client:
        document = client.get("/api/v2/openapi.json").json()
    assert set(document["paths"]) == {operation.path for operation in OPERATIONS}
    names = [one["name"] for one in document["paths"]["/api/v2/lineage"]["get"]["parameters"]]
    assert names == ["nodeId", "column", "direction", "depth", "limit", "asOf", "rollUp", "frames"]
