"""Tests of the examples in docs/api.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.support.paths import DOCS

from clew.api.app import create_app
from clew.api.v2.routes import OPERATIONS, operation_routes
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import LineageTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS
from clew.query.context import QueryResources

PAGE = (DOCS / "api.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```http\nGET (\S+)\n```\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OMITTED = "…"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("shop")
    lake, extractor, rows = Lake(folder / "lake"), ChangeExtractor(), LineageTableBuilder()
    for seq, body in enumerate((DOCS / "examples" / "shop.ndjson").read_bytes().splitlines()):
        event = decode_openlineage(body)
        extractor.add(event, event_id(body), seq)
        rows.add(event, ReceivedEvent(event_id(body), seq, datetime(2026, 3, 3, tzinfo=UTC), "test", body))
    with IndexWriter(folder / "index.sqlite") as index_writer:
        index_writer.apply("shop/0", extractor.changes())
    lake.create_or_validate()
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.drain()), *writer.flush()]
    for table in EVENT_TABLES:
        lake.append(table.name, table.schema, [file for file in files if file.table == table.name], BatchId("shop", 0))
    with QueryResources(folder / "index.sqlite", lake.root) as resources:
        app = create_app(operation_routes(resources))
        with TestClient(app) as test_client:
            yield test_client


def matches(documented: Any, response: Any) -> bool:
    """Return whether a response matches the documented one, except for omitted parts."""
    if documented == OMITTED:
        return True
    if isinstance(documented, dict) and isinstance(response, dict):
        fields = {key: value for key, value in documented.items() if key != OMITTED}
        has_all_fields = OMITTED in documented or fields.keys() == response.keys()
        return has_all_fields and all(
            key in response and matches(value, response[key]) for key, value in fields.items()
        )
    if isinstance(documented, list) and isinstance(response, list):
        if documented and documented[-1] == OMITTED:
            documented, response = documented[:-1], response[: len(documented) - 1]
        return len(documented) == len(response) and all(map(matches, documented, response))
    return bool(documented == response)


@pytest.mark.parametrize(("request_line", "documented"), EXAMPLE.findall(PAGE), ids=lambda text: str(text)[:60].strip())
def test_documented_response_is_current(client: TestClient, request_line: str, documented: str) -> None:
    response = client.get(request_line).json()
    assert matches(json.loads(documented), response), json.dumps(response, indent=1)


def test_every_operation_and_parameter_is_documented() -> None:
    assert [operation.path for operation in OPERATIONS if f"`GET {operation.path}`" not in PAGE] == []
    assert len(EXAMPLE.findall(PAGE)) >= 10
    names = {name for operation in OPERATIONS for name in operation.parameters.__struct_encode_fields__}
    assert [name for name in names if f"`{name}`" not in PAGE] == []
