"""Ids of nodes: names that hold colons and digits are found, others are told what is like them."""

from __future__ import annotations

from typing import Any

import pytest

from clew.query.context import QueryResources
from clew.query.graph.nodes import Column, Node
from clew.query.names import MalformedNodeIdError, UnknownNameError, resolve_field_id, resolve_node_id


@pytest.fixture
def named(world: Any) -> Any:
    world.events.append(
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
    world.tell()
    return world


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
def test_the_split_that_is_known_is_meant(named: Any, holdings: QueryResources, text: str, expected: Node) -> None:
    assert named.events
    with holdings.reader() as index:
        assert resolve_node_id(index, text) == expected


def test_a_field_may_hold_colons_too(named: Any, holdings: QueryResources) -> None:
    assert named.events
    with holdings.reader() as index:
        found = resolve_field_id(index, "datasetField:arn:aws:glue:eu-1:42:table/shop:orders:a:b")
        assert found == Column("arn:aws:glue:eu-1:42", "table/shop:orders", "a:b")
        with pytest.raises(UnknownNameError, match="Did you mean a:b"):
            resolve_field_id(index, "datasetField:arn:aws:glue:eu-1:42:table/shop:orders:a:c")


@pytest.mark.parametrize(
    "text", ["", ":", "dataset", "dataset:", "dataset:x", "table:a:b", "run:1", "dataset::", "::::"]
)
def test_what_names_nothing_is_said_to_be_malformed(named: Any, holdings: QueryResources, text: str) -> None:
    assert named.events
    with holdings.reader() as index, pytest.raises(MalformedNodeIdError):
        resolve_node_id(index, text)


def test_an_unknown_name_is_told_what_is_like_it(named: Any, holdings: QueryResources) -> None:
    assert named.events
    with (
        holdings.reader() as index,
        pytest.raises(UnknownNameError, match="Did you mean postgres://host:5432:2024_orders"),
    ):
        resolve_node_id(index, "dataset:postgres://host:5432:2024_order")
