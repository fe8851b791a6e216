"""Expected event tables after the lines of a log: each event and each facet, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.events import Dataset, Event, Facets
from tests.reference.lineage import Row


def lineage_events(events: list[Event]) -> list[Row]:
    return [
        {
            "seq": event.seq,
            "event": event.text,
            "event_time": event.at,
            "run_uuid": event.run,
            "job_namespace": event.job and event.job[0],
            "job_name": event.job and event.job[1],
            "session_id": event.session_id,
            "execution_id": event.execution_id,
        }
        for event in events
    ]


def run_facets(events: list[Event]) -> list[Row]:
    return [row for event in events for row in facet_rows(event, event.run_facets if event.run else {})]


def job_facets(events: list[Event]) -> list[Row]:
    return [row for event in events for row in facet_rows(event, event.job_facets if event.job else {})]


def dataset_facets(events: list[Event]) -> list[Row]:
    return [
        {
            "dataset_namespace": dataset.namespace,
            "dataset_name": dataset.name,
            "dataset_version": dataset.version,
            "direction": direction,
            "type": kind,
            **row,
        }
        for event in events
        for direction, dataset in listed_datasets(event)
        for kind, facets in facet_kinds(dataset)
        for row in facet_rows(event, facets)
    ]


def listed_datasets(event: Event) -> Iterator[tuple[str | None, Dataset]]:
    yield from (("INPUT", dataset) for dataset in event.inputs)
    yield from (("OUTPUT", dataset) for dataset in event.outputs)
    yield from ((None, dataset) for dataset in ([event.subject] if event.subject else []))


def facet_kinds(dataset: Dataset) -> list[tuple[str, Facets]]:
    return [("DATASET", dataset.facets), ("INPUT", dataset.input_facets), ("OUTPUT", dataset.output_facets)]


def facet_rows(event: Event, facets: Facets) -> Iterator[Row]:
    for name, facet in facets.items():
        yield {"seq": event.seq, "run_uuid": event.run, "lineage_event_time": event.at, "name": name, "facet": facet}
