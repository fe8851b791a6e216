"""Lineage endpoints: graph of jobs and datasets, and upstream runs."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from clew.api.marquez.nodes import EdgeSchema, NodeSchema, parse_node_kind
from clew.api.marquez.reading import json_response
from clew.api.marquez.requests import MarquezError, MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.shapes import JobBase, format_dataset_base, format_job_base, format_run
from clew.errors import UsageError
from clew.index.reader import IndexVersion
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import CatalogJob
from clew.query.catalog.surroundings import find_neighbourhood
from clew.query.graph.lineage import JobGraph
from clew.query.graph.nodes import Node
from clew.query.holdings import QueryResources
from clew.query.moments import from_epoch_micros
from clew.query.node_ids import MalformedNodeIdError, resolve_node_id

_DEFAULT_DEPTH = 20


class JobNodeSchema(JobBase, frozen=True, rename="camel"):
    """Job of a graph node."""

    current_run_uuid: str | None


class UpstreamJobSchema(Struct, frozen=True):
    """Job of an upstream run."""

    namespace: str | None
    name: str | None
    version: str | None


class UpstreamRunSchema(Struct, frozen=True):
    """Upstream run."""

    id: str
    start: datetime | None
    end: datetime | None
    status: str


class UpstreamInputSchema(Struct, frozen=True, rename="camel"):
    """Input of a run, and the run that produced it."""

    namespace: str
    name: str
    version: str | None
    produced_by_run_id: str | None


class UpstreamSchema(Struct, frozen=True):
    """Upstream run with its job and inputs."""

    job: UpstreamJobSchema
    run: UpstreamRunSchema
    inputs: list[UpstreamInputSchema]


class LineageHandlers:
    """Handlers of the lineage endpoints. Encoded nodes are cached until the index changes."""

    def __init__(self, resources: QueryResources) -> None:
        self._resources = resources
        self._progress: IndexVersion | None = None
        self._encoded_nodes: dict[int, Raw] = {}

    def lineage(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /lineage`."""
        node_id, depth = request.required_param("nodeId"), request.int_param("depth", _DEFAULT_DEPTH)
        if parse_node_kind(node_id) not in {"dataset", "job"}:
            raise MarquezError(404, f"Node '{node_id}' not found.")
        start = _find_start(catalog, node_id)
        _, graph = self._resources.get_job_graph(catalog.reader)
        number = graph.find(start)
        if number is None:
            return json_response({"graph": self._isolated_node(catalog, start)})
        return json_response({"graph": self._nodes(catalog, graph, find_neighbourhood(graph, number, depth))})

    def upstream_runs(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /runlineage/upstream`."""
        run_id, depth = request.required_param("runId"), request.int_param("depth", _DEFAULT_DEPTH)
        runs = catalog.runs_upstream(run_id, depth)
        if not runs:
            raise not_found_error("Run", run_id)
        return json_response(
            {
                "runs": [
                    UpstreamSchema(
                        UpstreamJobSchema(run.row.job_namespace, run.row.job_name, run.row.job_version),
                        UpstreamRunSchema(
                            run.row.run_uuid,
                            from_epoch_micros(run.row.started_at),
                            from_epoch_micros(run.row.ended_at),
                            run.row.state,
                        ),
                        [
                            UpstreamInputSchema(source.namespace, source.name, source.version, source.produced_by)
                            for source in run.inputs
                        ],
                    )
                    for run in runs
                ]
            }
        )

    def _isolated_node(self, catalog: Catalog, node: Node) -> list[NodeSchema]:
        """Return the node of a job or dataset without edges."""
        name = node.namespace, node.name
        if node.kind == "job":
            data = [msgspec.json.encode(_job_node(job)) for job in catalog.job_summaries([name])]
        else:
            data = [msgspec.json.encode(format_dataset_base(item)) for item in catalog.dataset_summaries([name])]
        return [NodeSchema(node.id, _node_type(node), Raw(item), [], []) for item in data]

    def _nodes(self, catalog: Catalog, graph: JobGraph, numbers: list[int]) -> list[NodeSchema]:
        nodes = {number: graph.node(number) for number in numbers}
        data = self._node_data(catalog, nodes)
        ids = {number: nodes[number].id for number in data}
        result = [
            NodeSchema(
                ids[number],
                _node_type(nodes[number]),
                content,
                [EdgeSchema(ids[other], ids[number]) for other in graph.backward.ends_of(number) if other in ids],
                [EdgeSchema(ids[number], ids[other]) for other in graph.forward.ends_of(number) if other in ids],
            )
            for number, content in data.items()
        ]
        return sorted(result, key=lambda node: node.id)

    def _node_data(self, catalog: Catalog, nodes: dict[int, Node]) -> dict[int, Raw]:
        progress = catalog.reader.version()
        if progress != self._progress or catalog.has_unindexed:
            self._progress, self._encoded_nodes = progress, {}
        cached = self._encoded_nodes
        missing = {number: node for number, node in nodes.items() if number not in cached}
        if missing:
            cached |= _encode_nodes(catalog, missing)
        return {number: cached[number] for number in nodes if number in cached}


def _encode_nodes(catalog: Catalog, nodes: dict[int, Node]) -> dict[int, Raw]:
    numbers = {(node.kind, node.namespace, node.name): number for number, node in nodes.items()}
    jobs = catalog.job_summaries([(node.namespace, node.name) for node in nodes.values() if node.kind == "job"])
    datasets = catalog.dataset_summaries(
        [(node.namespace, node.name) for node in nodes.values() if node.kind == "dataset"]
    )
    encode = msgspec.json.Encoder().encode
    encoded = {numbers["job", job.namespace, job.name]: Raw(encode(_job_node(job))) for job in jobs}
    encoded |= {
        numbers["dataset", dataset.namespace, dataset.name]: Raw(encode(format_dataset_base(dataset)))
        for dataset in datasets
    }
    return encoded


def _job_node(job: CatalogJob) -> JobNodeSchema:
    last = job.latest_run
    head = format_job_base(job, None if last is None else format_run(last))
    return JobNodeSchema(**asdict(head), current_run_uuid=None if last is None else last.id)


def _node_type(node: Node) -> Literal["DATASET", "JOB"]:
    return "JOB" if node.kind == "job" else "DATASET"


def _find_start(catalog: Catalog, node_id: str) -> Node:
    try:
        return resolve_node_id(catalog.reader, node_id)
    except MalformedNodeIdError as error:
        raise MarquezError(400, str(error).replace("\n", " ")) from None
    except UsageError:
        raise MarquezError(404, f"Node '{node_id}' not found.") from None
