"""docs/api.md shows real answers: every request on the page is asked, of the events that the page names."""

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
from clew.query.service import NotebookService

PAGE = (DOCS / "api.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```http\nGET (\S+)\n```\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OMITTED = "…"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("shop")
    lake, observer, rows = Lake(folder / "lake"), ChangeExtractor(), LineageTableBuilder()
    for seq, body in enumerate((DOCS / "examples" / "shop.ndjson").read_bytes().splitlines()):
        event = decode_openlineage(body)
        observer.add(event, event_id(body), seq)
        rows.add(event, ReceivedEvent(event_id(body), seq, datetime(2026, 3, 3, tzinfo=UTC), "test", body))
    with IndexWriter(folder / "index.sqlite") as sink:
        sink.apply("shop/0", observer.changes())
    lake.create_or_validate()
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [*writer.add(rows.drain()), *writer.flush()]
    for table in EVENT_TABLES:
        lake.append(table.name, table.schema, [file for file in files if file.table == table.name], BatchId("shop", 0))
    with QueryResources(folder / "index.sqlite", lake.root) as holdings:
        app = create_app(lambda: NotebookService(folder / "index.sqlite"), operation_routes(holdings))
        with TestClient(app) as made:
            yield made


def is_shown(shown: Any, answer: Any) -> bool:
    """Whether an answer is what is shown, but for what is omitted there."""
    if shown == OMITTED:
        return True
    if isinstance(shown, dict) and isinstance(answer, dict):
        named = {key: value for key, value in shown.items() if key != OMITTED}
        is_whole = OMITTED in shown or named.keys() == answer.keys()
        return is_whole and all(key in answer and is_shown(value, answer[key]) for key, value in named.items())
    if isinstance(shown, list) and isinstance(answer, list):
        if shown and shown[-1] == OMITTED:
            shown, answer = shown[:-1], answer[: len(shown) - 1]
        return len(shown) == len(answer) and all(map(is_shown, shown, answer))
    return bool(shown == answer)


@pytest.mark.parametrize(("request_line", "shown"), EXAMPLE.findall(PAGE), ids=lambda text: str(text)[:60].strip())
def test_an_answer_on_the_page_is_the_real_one(client: TestClient, request_line: str, shown: str) -> None:
    answer = client.get(request_line).json()
    assert is_shown(json.loads(shown), answer), json.dumps(answer, indent=1)


def test_every_question_is_on_the_page_and_at_least_ten_are_answered() -> None:
    assert [operation.path for operation in OPERATIONS if f"`GET {operation.path}`" not in PAGE] == []
    assert len(EXAMPLE.findall(PAGE)) >= 10
    names = {parameter.name for operation in OPERATIONS for parameter in operation.parameters}
    assert [name for name in names if f"`{name}`" not in PAGE] == []
