"""Tests of the recursive CTEs: they reach the same tables and columns as the traversal of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.large_index import STORE, table_name, write_index
from bench.recursive import RecursiveQueries

from clew.query.context import QueryResources
from clew.query.names import resolve_id
from clew.query.service import LineageService

JOBS = 120


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "index.sqlite"
    write_index(path, JOBS)
    return path


@pytest.fixture
def recursive(index: Path) -> Iterator[RecursiveQueries]:
    queries = RecursiveQueries(index, STORE)
    yield queries
    queries.close()


def traverse(index: Path, name: str, column: str | None = None) -> list[dict[str, Any]]:
    with QueryResources(index) as resources, resources.reader() as reader:
        resolved = resolve_id(reader, f"dataset:{STORE}:{name}", column)
        result = msgspec.to_builtins(LineageService(resources, reader).traverse(resolved))
        return list(result["nodes"])


@pytest.mark.parametrize("number", [0, 30, 77, 119])
def test_tables_are_those_of_the_graph(index: Path, recursive: RecursiveQueries, number: int) -> None:
    expected = {node["name"] for node in traverse(index, table_name(number)) if node["kind"] == "dataset"}
    reached = {name for name, _ in recursive.table_lineage(table_name(number))}
    assert len(reached) > 1
    assert reached == expected


@pytest.mark.parametrize("number", [0, 30, 77, 119])
def test_columns_are_those_of_the_graph(index: Path, recursive: RecursiveQueries, number: int) -> None:
    nodes = traverse(index, table_name(number), "column_1")
    expected = {(node["name"], node["column"]) for node in nodes if node.get("column")}
    reached = {(name, field) for name, field, _ in recursive.column_lineage(table_name(number), "column_1")}
    assert reached == expected
