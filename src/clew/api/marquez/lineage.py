"""Handlers of lineage and column lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from clew.api.marquez.http import MarquezError, MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.read_handlers import json_response
from clew.api.marquez.schemas import (
    Document,
    format_dataset_base,
    format_job_base,
    format_run,
    marquez_transformation_type,
)
from clew.index.queries.connection import IndexVersion
from clew.query.context import QueryResources
from clew.query.entities.catalog import MAX_NEIGHBOURHOOD_NODES, Catalog, UpstreamRun
from clew.query.entities.model import CatalogJob
from clew.query.graph.nodes import Column, Node
from clew.query.lineage import FieldTraversal, Neighbourhood, TraversalLimits
from clew.query.model import Transformation
from clew.query.names import UnknownNameError, node_kind, resolve_field_id, resolve_node_id
from clew.query.service import LineageService


# A response can have tens of thousands; `gc=False` exempts them from garbage collection.
class EdgeSchema(Struct, frozen=True, gc=False):
    """Edge between two node ids."""

    origin: str
    destination: str


class NodeSchema(Struct, frozen=True, rename="camel", gc=False):
    """Node with its data and edges."""

    id: str
    type: Literal["DATASET", "JOB", "DATASET_FIELD"]
    data: Raw | Struct
    in_edges: list[EdgeSchema]
    out_edges: list[EdgeSchema]


_DEFAULT_DEPTH = 20


class LineageHandlers:
    """Handlers of lineage and column lineage. Encoded nodes are cached until the index changes."""

    def __init__(self, resources: QueryResources) -> None:
        self._resources = resources
        self._progress: IndexVersion | None = None
        self._encoded_nodes: dict[int, Raw] = {}

    def lineage(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /lineage`."""
        node_id, depth = request.required_param("nodeId"), request.depth_param(_DEFAULT_DEPTH)
        if node_kind(node_id) not in {"dataset", "job"}:
            raise MarquezError(404, f"Node '{node_id}' not found.")
        start = _find_start(catalog, node_id)
        service = LineageService(self._resources, catalog.reader)
        neighbourhood = service.find_neighbourhood(start, depth, MAX_NEIGHBOURHOOD_NODES)
        nodes = self._isolated_node(catalog, start) if neighbourhood is None else self._nodes(catalog, neighbourhood)
        return json_response({"graph": nodes})

    def column_lineage(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /column-lineage`."""
        node_id, depth = request.required_param("nodeId"), request.depth_param(_DEFAULT_DEPTH)
        is_downstream = request.bool_param("withDownstream")
        version = _parse_version(node_id)
        if version is not None and is_downstream:
            raise MarquezError(400, "Node version cannot be specified when withDownstream is set to true")
        start = _find_columns(catalog, node_id)
        if version is not None and node_kind(node_id) != "job" and not _has_version(catalog, start, version):
            raise MarquezError(404, "Could not find node")
        if not start:
            raise MarquezError(404, "Could not find node")
        traversal = LineageService(self._resources, catalog.reader).traverse_fields(
            start, "both" if is_downstream else "upstream", TraversalLimits(depth, MAX_NEIGHBOURHOOD_NODES)
        )
        # Of a dataset or job without columns.
        if start[0].column is None and not any(traversal.sources.values()) and not _has_fields(catalog, start):
            raise MarquezError(404, "Could not find node")
        return json_response({"graph": _column_nodes(catalog, traversal)})

    def upstream_runs(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /runlineage/upstream`."""
        run_id, depth = request.required_param("runId"), request.depth_param(_DEFAULT_DEPTH)
        runs = catalog.runs_upstream(run_id, depth)
        if not runs:
            raise not_found_error("Run", run_id)
        return json_response({"runs": list(map(_upstream_run, runs))})

    def _isolated_node(self, catalog: Catalog, node: Node) -> list[NodeSchema]:
        """Return the node of a job or dataset without edges."""
        name = node.namespace, node.name
        if node.kind == "job":
            data = [msgspec.json.encode(_job_node(job)) for job in catalog.job_summaries([name])]
        else:
            data = [msgspec.json.encode(format_dataset_base(item)) for item in catalog.dataset_summaries([name])]
        return [NodeSchema(node.id, _node_type(node), Raw(item), [], []) for item in data]

    def _nodes(self, catalog: Catalog, neighbourhood: Neighbourhood) -> list[NodeSchema]:
        data = self._node_data(catalog, neighbourhood.nodes)
        nodes = {
            number: NodeSchema(node.id, _node_type(node), data[number], [], [])
            for number, node in neighbourhood.nodes.items()
            if number in data
        }
        for origin, destination in neighbourhood.edges:
            if origin in nodes and destination in nodes:
                edge = EdgeSchema(nodes[origin].id, nodes[destination].id)
                nodes[origin].out_edges.append(edge)
                nodes[destination].in_edges.append(edge)
        return sorted(nodes.values(), key=attrgetter("id"))

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


def _job_node(job: CatalogJob) -> Document:
    last = job.latest_run
    head = format_job_base(job, None if last is None else format_run(last))
    return {**head, "currentRunUuid": None if last is None else last.id}


def _upstream_run(upstream: UpstreamRun) -> Document:
    run = upstream.run
    namespace, name = run.job or (None, None)
    return {
        "job": {"namespace": namespace, "name": name, "version": run.job_version},
        "run": {"id": run.id, "start": run.started_at, "end": run.ended_at, "status": run.state},
        "inputs": [
            {
                "namespace": item.namespace,
                "name": item.name,
                "version": item.version_id,
                "producedByRunId": writer,
            }
            for item, writer in zip(run.inputs, upstream.writers, strict=True)
        ],
    }


def _node_type(node: Node) -> Literal["DATASET", "JOB"]:
    return "JOB" if node.kind == "job" else "DATASET"


def _find_start(catalog: Catalog, node_id: str) -> Node:
    try:
        return resolve_node_id(catalog.reader, node_id)
    except UnknownNameError:
        imported = catalog.resolve_node_id(node_id)
        if imported not in {None, node_id}:
            return _find_start(catalog, str(imported))
        raise MarquezError(404, f"Node '{node_id}' not found.") from None


class FieldSourceSchema(Struct, frozen=True, rename="camel", gc=False):
    """Source column; `transformations` is an extension of clew."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[Transformation, ...]


class FieldSchema(Struct, frozen=True, rename="camel", gc=False):
    """Column of a graph node."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    field_type: str
    transformation_description: str | None
    transformation_type: str | None
    input_fields: list[FieldSourceSchema]


def _parse_version(node_id: str) -> str | None:
    _, mark, version = node_id.rpartition("#")
    return version if mark and len(version) == 36 else None


def _find_columns(catalog: Catalog, node_id: str) -> list[Column]:
    """Return the columns of a node id; a Column without name is a whole dataset."""
    kind = node_kind(node_id)
    if kind == "run":
        raise MarquezError(404, "Could not find node")
    try:
        if kind != "job":
            return [resolve_field_id(catalog.reader, node_id)]
        job = resolve_node_id(catalog.reader, node_id)
    except UnknownNameError:
        raise MarquezError(404, "Could not find node") from None
    return [Column(*name) for matched in catalog.jobs_by_name([(job.namespace, job.name)]) for name in matched.outputs]


def _has_fields(catalog: Catalog, columns: list[Column]) -> bool:
    datasets = catalog.fields_of({(column.namespace, column.dataset) for column in columns})
    return any(types for _, types in datasets.values())


def _has_version(catalog: Catalog, columns: list[Column], version: str) -> bool:
    return any(catalog.dataset_version((column.namespace, column.dataset), version) is not None for column in columns)


def _column_nodes(catalog: Catalog, traversal: FieldTraversal) -> list[NodeSchema]:
    """Build the nodes. As in Marquez, the origin of an inEdge is the node itself."""
    datasets = catalog.fields_of({(column.namespace, column.dataset) for column in traversal.columns.values()})
    ids = {number: column.id for number, column in traversal.columns.items()}
    targets: defaultdict[int, list[int]] = defaultdict(list)
    for number, sources in traversal.sources.items():
        for source in sources:
            targets[source].append(number)
    nodes = []
    for number, column in traversal.columns.items():
        sources = traversal.sources[number]
        inputs = [
            _field_source(traversal.columns[source], datasets, tuple(transformations))
            for source, transformations in sources.items()
        ]
        nodes.append(
            NodeSchema(
                ids[number],
                "DATASET_FIELD",
                _field(column, datasets, inputs),
                [EdgeSchema(ids[number], ids[source]) for source in sources],
                [EdgeSchema(ids[number], ids[target]) for target in targets[number]],
            )
        )
    return sorted(nodes, key=attrgetter("id"))


# The current version and the field types of each dataset.
_DatasetFields = Mapping[tuple[str, str], tuple[str | None, dict[str, str | None]]]


def _field(column: Column, datasets: _DatasetFields, inputs: list[FieldSourceSchema]) -> FieldSchema:
    version, types = datasets.get((column.namespace, column.dataset), (None, {}))
    first = inputs[0] if inputs else None
    return FieldSchema(
        column.namespace,
        column.dataset,
        version,
        column.column or "",
        types.get(column.column or "") or "",
        None if first is None else first.transformation_description,
        None if first is None else first.transformation_type,
        inputs,
    )


def _field_source(
    column: Column, datasets: _DatasetFields, transformations: tuple[Transformation, ...]
) -> FieldSourceSchema:
    version, _ = datasets.get((column.namespace, column.dataset), (None, {}))
    first = transformations[0]
    return FieldSourceSchema(
        column.namespace,
        column.dataset,
        version,
        column.column or "",
        first.description,
        marquez_transformation_type(first),
        transformations,
    )
