"""Tests of node id parsing: names with colons and digits, and suggestions for unknown names."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.nodes import Column, Node
from clew.query.names import MalformedNodeIdError, UnknownNameError, resolve_field_id, resolve_node_id


@pytest.fixture
def indexed_scenario(scenario: Any) -> Any:
    scenario.events.append(
        {
            "eventTime": "2026-01-01T10:00:00Z",
            "eventType": "COMPLETE",
            "run": {"runId": "a"},
            "job": {"namespace": "airflow:prod", "name": "dag:1.task"},
            "inputs": [{"namespace": "postgres://host:5432", "name": "2024_orders"}],
            "outputs": [
                {
                    "namespace": "arn:aws:glue:eu-1:42",
                    "name": "table/shop:orders",
                    "facets": {"schema": {"fields": [{"name": "a:b"}]}},
                }
            ],
        }
    )
    scenario.index_events()
    return scenario


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dataset:postgres://host:5432:2024_orders", Node("dataset", "postgres://host:5432", "2024_orders")),
        (
            "dataset:arn:aws:glue:eu-1:42:table/shop:orders",
            Node("dataset", "arn:aws:glue:eu-1:42", "table/shop:orders"),
        ),
        ("job:airflow:prod:dag:1.task", Node("job", "airflow:prod", "dag:1.task")),
        (
            "job:airflow:prod:dag:1.task#0f2a8d2e-3a3c-3c3c-8d2e-0f2a8d2e3a3c",
            Node("job", "airflow:prod", "dag:1.task"),
        ),
    ],
)
def test_splits_a_node_id_at_the_indexed_name(
    indexed_scenario: Any, resources: QueryResources, text: str, expected: Node
) -> None:
    assert indexed_scenario.events
    with resources.reader() as index:
        assert resolve_node_id(index, text) == expected


def test_resolves_a_field_name_with_colons(indexed_scenario: Any, resources: QueryResources) -> None:
    assert indexed_scenario.events
    with resources.reader() as index:
        column = resolve_field_id(index, "datasetField:arn:aws:glue:eu-1:42:table/shop:orders:a:b")
        assert column == Column("arn:aws:glue:eu-1:42", "table/shop:orders", "a:b")
        with pytest.raises(UnknownNameError, match="Did you mean a:b"):
            resolve_field_id(index, "datasetField:arn:aws:glue:eu-1:42:table/shop:orders:a:c")


@pytest.mark.parametrize(
    "text", ["", ":", "dataset", "dataset:", "dataset:x", "table:a:b", "run:1", "dataset::", "::::"]
)
def test_rejects_a_malformed_node_id(indexed_scenario: Any, resources: QueryResources, text: str) -> None:
    assert indexed_scenario.events
    with resources.reader() as index, pytest.raises(MalformedNodeIdError):
        resolve_node_id(index, text)


def test_suggests_similar_names_for_an_unknown_name(indexed_scenario: Any, resources: QueryResources) -> None:
    assert indexed_scenario.events
    with (
        resources.reader() as index,
        pytest.raises(UnknownNameError, match="Did you mean postgres://host:5432:2024_orders"),
    ):
        resolve_node_id(index, "dataset:postgres://host:5432:2024_order")
