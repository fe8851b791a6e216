"""Datasets, jobs and runs: one by one, and in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from clew.api.operations import Asked, Operation, TakesLongerError
from clew.api.parameters import Cursor, Integer, Parameter, Text, cursor_of
from clew.errors import MalformedError
from clew.index import entities
from clew.index.reader import Row
from clew.query.documents import (
    DatasetDocument,
    DatasetEntry,
    JobDocument,
    JobEntry,
    RunDocument,
    RunEntry,
    dataset_document,
    dataset_entry,
    job_document,
    job_entry,
    run_document,
    run_entry,
)
from clew.query.facets import run_facets
from clew.query.graph.nodes import Node
from clew.query.lineage import IndexedUpTo
from clew.query.node_ids import find_node

_CURSOR = Cursor("cursor", "Where the page before ended: next of its answer.")
_LIMIT = Integer("limit", "How many to tell.", least=1, most=1000, usual=100)
_NAMESPACE = Text("namespace", "Only those of this namespace.")
T = TypeVar("T")


class DatasetList(Struct, frozen=True):
    """A page of datasets by name; `next` is the cursor of the page after it."""

    datasets: tuple[DatasetEntry, ...]
    next: str | None


class JobList(Struct, frozen=True):
    """A page of jobs by name; `next` is the cursor of the page after it."""

    jobs: tuple[JobEntry, ...]
    next: str | None


class RunList(Struct, frozen=True):
    """A page of a job's runs, the newest first; `next` is the cursor of the page after it."""

    runs: tuple[RunEntry, ...]
    next: str | None


class Status(Struct, frozen=True, rename="camel"):
    """How far the index has come."""

    indexed_up_to: IndexedUpTo
    last_batch: str


def _node(asked: Asked, kind: str) -> Node:
    node = find_node(asked.index, asked["nodeId"])
    if node.kind != kind:
        raise MalformedError(f"{asked['nodeId'][:200]!r} is a {node.kind}.", hint=f"Ask /api/v2/{node.kind} for it.")
    return node


def _dataset(asked: Asked) -> DatasetDocument:
    node = _node(asked, "dataset")
    return dataset_document(asked.index, node.namespace, node.name)


def _job(asked: Asked) -> JobDocument:
    node = _node(asked, "job")
    return job_document(asked.index, node.namespace, node.name)


def _run(asked: Asked) -> RunDocument:
    holdings, found = asked.holdings, run_document(asked.index, asked["runId"])
    has_raw_events = False if found.facets else holdings.has_raw_events(asked.index)
    if has_raw_events is not False and asked.is_hurried:
        raise TakesLongerError
    if not (holdings.look_for_raw_events(asked.index) if has_raw_events is None else has_raw_events):
        return found
    return msgspec.structs.replace(found, facets=run_facets(asked.index, asked["runId"], holdings.lake))


def _datasets(asked: Asked) -> DatasetList:
    after = _CURSOR.shape(asked["cursor"], str, str) or ["", ""]
    rows = entities.datasets_after(asked.index, asked["namespace"], (after[0], after[1]), asked["limit"] + 1)
    return DatasetList(
        *_page(rows, asked["limit"], dataset_entry, lambda row: cursor_of(row["namespace"], row["name"]))
    )


def _jobs(asked: Asked) -> JobList:
    after = _CURSOR.shape(asked["cursor"], str, str) or ["", ""]
    rows = entities.jobs_after(asked.index, asked["namespace"], (after[0], after[1]), asked["limit"] + 1)
    return JobList(*_page(rows, asked["limit"], job_entry, _by_name))


def _runs(asked: Asked) -> RunList:
    node = _node(asked, "job")
    noted = _CURSOR.shape(asked["cursor"], (int, type(None)), str)
    before = None if noted is None else (noted[0], noted[1])
    rows = entities.runs_before(asked.index, node.namespace, node.name, before, asked["limit"] + 1)
    return RunList(*_page(rows, asked["limit"], run_entry, lambda row: cursor_of(row["started_at"], row["run_uuid"])))


def _by_name(row: Row) -> str:
    return cursor_of(row["namespace"], row["name"])


def _page(
    rows: list[Row], limit: int, entry: Callable[[Row], T], cursor: Callable[[Row], str]
) -> tuple[tuple[T, ...], str | None]:
    return tuple(map(entry, rows[:limit])), cursor(rows[limit - 1]) if len(rows) > limit else None


def _status(asked: Asked) -> Status:
    progress = asked.index.progress()
    return Status(IndexedUpTo(progress.seq, progress.at), progress.batch)


def _id(form: str, example: str) -> Parameter:
    return Text("nodeId", f"Which one: {form}.", is_required=True, example=example)


_DATASET_ID = _id("dataset:NAMESPACE:NAME", "dataset:file:/data/orders.csv")
_JOB_ID = _id("job:NAMESPACE:NAME", "job:marimo:orders")

ENTITY_OPERATIONS: Final = (
    Operation(
        "dataset",
        "/api/v2/dataset",
        "All that is known of a dataset, by whichever of its names",
        (_DATASET_ID,),
        DatasetDocument,
        _dataset,
        is_quick=True,
    ),
    Operation("job", "/api/v2/job", "All that is known of a job", (_JOB_ID,), JobDocument, _job, is_quick=True),
    Operation(
        "run",
        "/api/v2/runs/{runId}",
        "All that is known of a run",
        (Text("runId", "The runId of its events.", is_required=True, place="path"),),
        RunDocument,
        _run,
        is_quick=True,
    ),
    Operation(
        "datasets",
        "/api/v2/datasets",
        "Datasets by name, page by page",
        (_NAMESPACE, _LIMIT, _CURSOR),
        DatasetList,
        _datasets,
    ),
    Operation("jobs", "/api/v2/jobs", "Jobs by name, page by page", (_NAMESPACE, _LIMIT, _CURSOR), JobList, _jobs),
    Operation(
        "runs",
        "/api/v2/runs",
        "The runs of a job, the newest first, page by page",
        (_JOB_ID, _LIMIT, _CURSOR),
        RunList,
        _runs,
    ),
    Operation("status", "/api/v2/status", "How far the index has come", (), Status, _status, is_quick=True),
)
