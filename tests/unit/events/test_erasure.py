"""Tests of the erasure of datasets, sessions and namespaces from events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.events.erasure import ErasureKind, ErasureTarget, EventEraser
from clew.events.streams import Stream

ORDERS = {"namespace": "postgres://shop", "name": "shop.public.orders"}
CLEAN = {"namespace": "postgres://shop", "name": "shop.public.clean"}
DATASET = ErasureTarget(ErasureKind.DATASET, names=(("postgres://shop", "shop.public.orders"),))
NAMESPACE = ErasureTarget(ErasureKind.NAMESPACE, "postgres://shop")
SESSION = ErasureTarget(ErasureKind.SESSION, "ab12cd34")


def run_event(**changes: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": "2026-01-01T10:00:00Z",
        "producer": "https://example.com",
        "run": {"runId": "0195486f-8a00-7000-8000-000000000001", "facets": {}},
        "job": {"namespace": "jobs", "name": "load"},
        "inputs": [],
        "outputs": [],
        **changes,
    }


def erase(
    target: ErasureTarget, event: dict[str, Any], *others: dict[str, Any], stream: str = Stream.OPENLINEAGE
) -> dict[str, Any] | None:
    """Erase an entity from an event; None if the event is deleted."""
    eraser = EventEraser(target)
    for item in (event, *others):
        eraser.collect(stream if item is event else Stream.OPENLINEAGE, json.dumps(item).encode())
    erased = eraser.erase(stream, "http", json.dumps(event).encode())
    return json.loads(erased) if erased else None


def test_an_event_of_others_is_returned_as_it_is() -> None:
    body = json.dumps(run_event(inputs=[CLEAN]), indent=1).encode()
    for target in (DATASET, SESSION, ErasureTarget(ErasureKind.NAMESPACE, "other")):
        assert EventEraser(target).erase(Stream.OPENLINEAGE, "http", body) is body


def test_a_dataset_is_removed_from_the_event_of_a_run_that_used_it() -> None:
    lineage = {
        "fields": {
            "total": {
                "inputFields": [{**ORDERS, "field": "price"}, {**CLEAN, "field": "tax"}],
                "transformationDescription": "sum(shop.public.orders.price)",
            },
            "price": {"inputFields": [{**ORDERS, "field": "price"}]},
        }
    }
    event = run_event(
        inputs=[{**ORDERS, "facets": {"schema": {"fields": [{"name": "iban"}]}}}, CLEAN],
        outputs=[{**CLEAN, "facets": {"columnLineage": lineage}}],
        job={
            "namespace": "jobs",
            "name": "load",
            "facets": {"sql": {"query": "select * from public.orders join reorders using (id)"}},
        },
    )
    erased = erase(DATASET, event)
    assert erased == run_event(
        inputs=[CLEAN],
        outputs=[
            {
                **CLEAN,
                "facets": {
                    "columnLineage": {
                        "fields": {
                            "total": {
                                "inputFields": [{**CLEAN, "field": "tax"}],
                                "transformationDescription": "sum(***.price)",
                            }
                        }
                    }
                },
            }
        ],
        job={
            "namespace": "jobs",
            "name": "load",
            "facets": {"sql": {"query": "select * from public.*** join reorders using (id)"}},
        },
    )


@pytest.mark.parametrize(
    "facet",
    [
        {"identifiers": [{**ORDERS, "type": "TABLE"}]},
        {"previous": ORDERS},
        {"fields": {"total": {"inputFields": [{**ORDERS, "field": "price"}]}}},
        {"inputs": [{"nested": {"deep": [ORDERS]}}]},
    ],
    ids=["symlinks", "member", "columnLineage", "nested"],
)
def test_a_facet_that_only_refers_to_the_entity_is_removed(facet: dict[str, Any]) -> None:
    event = run_event(outputs=[{"namespace": "n", "name": "out", "facets": {"f": facet, "g": {"a": 1}}}])
    for target in (DATASET, NAMESPACE):
        assert erase(target, event) == run_event(outputs=[{"namespace": "n", "name": "out", "facets": {"g": {"a": 1}}}])


def test_the_full_name_is_masked_in_texts_of_other_events_but_not_in_names() -> None:
    event = run_event(
        job={"namespace": "jobs", "name": "shop.public.orders", "facets": {"doc": {"text": "after shop.public.orders"}}}
    )
    erased = erase(DATASET, event)
    assert erased is not None
    assert erased["job"] == {
        "namespace": "jobs",
        "name": "shop.public.orders",
        "facets": {"doc": {"text": "after ***"}},
    }


def test_a_job_with_the_name_of_the_dataset_is_not_the_dataset() -> None:
    event = run_event(run={"runId": "r", "facets": {"parent": {"job": ORDERS, "run": {"runId": "p"}}}})
    assert erase(DATASET, event) == event
    erased = erase(NAMESPACE, event)
    assert erased is not None
    assert erased["run"]["facets"] == {}


def test_events_of_the_entity_are_deleted() -> None:
    dataset_event = {"eventTime": "2026-01-01T10:00:00Z", "dataset": ORDERS}
    assert erase(DATASET, dataset_event) is None
    assert erase(NAMESPACE, dataset_event) is None
    assert erase(NAMESPACE, run_event(job={"namespace": "postgres://shop", "name": "load"})) is None
    assert erase(DATASET, {"eventTime": "2026-01-01T10:00:00Z", "dataset": CLEAN}) is not None


def test_names_with_escapes_are_found() -> None:
    target = ErasureTarget(ErasureKind.DATASET, names=(("n", "caf\u00e9/k\u00fcche"),))
    event = run_event(inputs=[{"namespace": "n", "name": "caf\u00e9/k\u00fcche"}])
    for body in (json.dumps(event), json.dumps(event, ensure_ascii=False), json.dumps(event).replace("/", "\\/")):
        erased = EventEraser(target).erase(Stream.OPENLINEAGE, "http", body.encode())
        assert json.loads(erased)["inputs"] == []


def test_an_event_that_is_not_valid_is_deleted_if_it_mentions_the_entity() -> None:
    for target, text in ((DATASET, b'{"inputs": shop.public.orders'), (NAMESPACE, b'{"namespace":"postgres://shop"')):
        eraser = EventEraser(target)
        assert eraser.erase(Stream.OPENLINEAGE, "http", text) == b""
        assert eraser.erase(Stream.OPENLINEAGE, "http", b"no event") == b"no event"


def test_all_events_of_a_session_are_deleted() -> None:
    cell = {
        "event_type": "cell_execution_start",
        "session_id": "ab12cd34",
        "execution_id": "e1",
        "timestamp": "2026-01-01",
    }
    assert erase(SESSION, cell, stream=Stream.RUNTIME) is None
    assert erase(SESSION, {**cell, "session_id": "other"}, stream=Stream.RUNTIME) is not None
    run = run_event(session_id="ab12cd34")
    assert erase(SESSION, run) is None
    parent = {"run": {"runId": run["run"]["runId"]}, "job": {"namespace": "marimo", "name": "nb"}}
    child = run_event(run={"runId": "0195486f-8a00-7000-8000-000000000002", "facets": {"parent": parent}})
    assert erase(SESSION, child, run) is None
    assert erase(SESSION, child) == child
    body = json.dumps(child).encode()
    assert EventEraser(SESSION).erase(Stream.OPENLINEAGE, "ab12cd34/spark_lineage_events.jsonl", body) == b""


def test_the_code_of_a_cell_that_uses_the_dataset_is_masked() -> None:
    target = ErasureTarget(ErasureKind.DATASET, names=(("file", "/home/me/shop/orders.csv"),))
    cell = {
        "event_type": "cell_execution_start",
        "session_id": "s",
        "execution_id": "e1e1e1e1",
        "timestamp": "2026-01-01",
        "cell_source": "orders = pd.read_csv('orders.csv')",
    }
    usage = run_event(
        session_id="s", execution_id="e1e1e1e1", inputs=[{"namespace": "file", "name": "/home/me/shop/orders.csv"}]
    )
    erased = erase(target, cell, usage, stream=Stream.RUNTIME)
    assert erased is not None
    assert erased["cell_source"] == "orders = pd.read_csv('***')"
    assert erase(target, {**cell, "execution_id": "e2"}, usage, stream=Stream.RUNTIME) == {**cell, "execution_id": "e2"}


def test_annotations_of_the_entity_are_removed() -> None:
    keys = ['["tags","dataset","postgres://shop","shop.public.orders"]', '["tags","dataset","n","d"]', '["tag","PII"]']
    facets: dict[str, Any] = {f"clew_annotation{key}": {"annotation": {"added": []}} for key in keys}
    event = {"eventTime": "2026-01-01T10:00:00Z", "dataset": {"namespace": "clew", "name": "notes", "facets": facets}}
    for target in (DATASET, NAMESPACE):
        erased = erase(target, event)
        assert erased is not None
        assert list(erased["dataset"]["facets"]) == [f"clew_annotation{key}" for key in keys[1:]]
    event["dataset"]["facets"] = {f"clew_annotation{keys[0]}": {}}  # type: ignore[index]
    assert erase(DATASET, event) is None


def test_a_notebook_namespace_includes_the_events_of_cells() -> None:
    cell = {"event_type": "cell_execution_start", "session_id": "s", "execution_id": "e", "timestamp": "2026-01-01"}
    assert erase(ErasureTarget(ErasureKind.NAMESPACE, "marimo"), cell, stream=Stream.RUNTIME) is None
    assert erase(NAMESPACE, cell, stream=Stream.RUNTIME) == cell
