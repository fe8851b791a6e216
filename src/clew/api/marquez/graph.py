"""Lineage as graphs: of jobs and datasets, and of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from clew.api.marquez.nodes import Edge, NodeShape, kind_in
from clew.api.marquez.reading import answer
from clew.api.marquez.requests import Answer, Asked, Refusal, not_found
from clew.api.marquez.shapes import JobHead, dataset_head, job_head, run_shape
from clew.errors import UsageError
from clew.index.reader import Progress
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import Job
from clew.query.catalog.surroundings import around
from clew.query.graph.lineage import LineageGraph
from clew.query.graph.nodes import Node
from clew.query.holdings import Holdings
from clew.query.moments import moment
from clew.query.node_ids import MalformedNodeError, find_node

_DEPTH = 20


class JobData(JobHead, frozen=True, rename="camel"):
    """A job as a node has it."""

    current_run_uuid: str | None


class RunJob(Struct, frozen=True):
    """The job of a run on the way to another."""

    namespace: str | None
    name: str | None
    version: str | None


class RunTimes(Struct, frozen=True):
    """A run on the way to another."""

    id: str
    start: datetime | None
    end: datetime | None
    status: str


class RunSource(Struct, frozen=True, rename="camel"):
    """What a run read, and the run that had made that."""

    namespace: str
    name: str
    version: str | None
    produced_by_run_id: str | None


class UpstreamShape(Struct, frozen=True):
    """A run on the way to another, its job, and what it read."""

    job: RunJob
    run: RunTimes
    inputs: list[RunSource]


class Graphs:
    """The endpoints that walk. What nodes look like is remembered until the index is written."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._progress: Progress | None = None
        self._known: dict[int, Raw] = {}

    def lineage(self, catalog: Catalog, asked: Asked) -> Answer:
        """`GET /lineage`."""
        node_id, depth = asked.required("nodeId"), asked.number("depth", _DEPTH)
        if kind_in(node_id) not in {"dataset", "job"}:
            raise Refusal(404, f"Node '{node_id}' not found.")
        start = _found(catalog, node_id)
        _, graph = self._holdings.lineage(catalog.reader)
        number = graph.find(start)
        if number is None:
            return answer({"graph": self._alone(catalog, start)})
        return answer({"graph": self._nodes(catalog, graph, around(graph, number, depth))})

    def runs(self, catalog: Catalog, asked: Asked) -> Answer:
        """`GET /runlineage/upstream`."""
        run_id, depth = asked.required("runId"), asked.number("depth", _DEPTH)
        found = catalog.runs_upstream(run_id, depth)
        if not found:
            raise not_found("Run", run_id)
        return answer(
            {
                "runs": [
                    UpstreamShape(
                        RunJob(one.row.job_namespace, one.row.job_name, one.row.job_version),
                        RunTimes(
                            one.row.run_uuid,
                            moment(one.row.started_at),
                            moment(one.row.ended_at),
                            one.row.state,
                        ),
                        [RunSource(used.namespace, used.name, used.version, used.produced_by) for used in one.inputs],
                    )
                    for one in found
                ]
            }
        )

    def _alone(self, catalog: Catalog, node: Node) -> list[NodeShape]:
        """A job that nothing is known to read or write, or a dataset that no job does."""
        name = node.namespace, node.name
        if node.kind == "job":
            data = [msgspec.json.encode(_job_data(job)) for job in catalog.jobs_in_graphs([name])]
        else:
            data = [msgspec.json.encode(dataset_head(one)) for one in catalog.datasets_in_graphs([name])]
        return [NodeShape(node.id, _type(node), Raw(one), [], []) for one in data]

    def _nodes(self, catalog: Catalog, graph: LineageGraph, numbers: list[int]) -> list[NodeShape]:
        nodes = {number: graph.node(number) for number in numbers}
        data = self._data(catalog, nodes)
        ids = {number: nodes[number].id for number in data}
        found = [
            NodeShape(
                ids[number],
                _type(nodes[number]),
                shown,
                [Edge(ids[one], ids[number]) for one in graph.backward.ends_of(number) if one in ids],
                [Edge(ids[number], ids[one]) for one in graph.forward.ends_of(number) if one in ids],
            )
            for number, shown in data.items()
        ]
        return sorted(found, key=lambda node: node.id)

    def _data(self, catalog: Catalog, nodes: dict[int, Node]) -> dict[int, Raw]:
        progress = catalog.reader.progress()
        if progress != self._progress or catalog.has_pending:
            self._progress, self._known = progress, {}
        known = self._known
        missing = {number: node for number, node in nodes.items() if number not in known}
        if missing:
            known |= _encoded(catalog, missing)
        return {number: known[number] for number in nodes if number in known}


def _encoded(catalog: Catalog, nodes: dict[int, Node]) -> dict[int, Raw]:
    numbers = {(node.kind, node.namespace, node.name): number for number, node in nodes.items()}
    jobs = catalog.jobs_in_graphs([(node.namespace, node.name) for node in nodes.values() if node.kind == "job"])
    datasets = catalog.datasets_in_graphs(
        [(node.namespace, node.name) for node in nodes.values() if node.kind == "dataset"]
    )
    encode = msgspec.json.Encoder().encode
    found = {numbers["job", job.namespace, job.name]: Raw(encode(_job_data(job))) for job in jobs}
    found |= {numbers["dataset", one.namespace, one.name]: Raw(encode(dataset_head(one))) for one in datasets}
    return found


def _job_data(job: Job) -> JobData:
    last = job.latest_run
    head = job_head(job, None if last is None else run_shape(last))
    return JobData(**asdict(head), current_run_uuid=None if last is None else last.id)


def _type(node: Node) -> Literal["DATASET", "JOB"]:
    return "JOB" if node.kind == "job" else "DATASET"


def _found(catalog: Catalog, node_id: str) -> Node:
    try:
        return find_node(catalog.reader, node_id)
    except MalformedNodeError as fault:
        raise Refusal(400, str(fault).replace("\n", " ")) from None
    except UsageError:
        raise Refusal(404, f"Node '{node_id}' not found.") from None
