"""Handlers of lineage and column lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict

from clew.api.marquez.http import MarquezError, MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.read_handlers import json_response
from clew.api.marquez.schemas import (
    JobBase,
    format_dataset_base,
    format_job_base,
    format_run,
    marquez_transformation_type,
)
from clew.errors import UsageError
from clew.index.queries.reader import IndexVersion
from clew.query.context import QueryResources
from clew.query.entities.catalog import Catalog, find_column_neighbourhood, find_neighbourhood
from clew.query.entities.model import CatalogJob, ColumnTransformation
from clew.query.graph.column_graph import ColumnGraph
from clew.query.graph.job_graph import JobGraph
from clew.query.graph.nodes import Column, Node
from clew.query.model import from_epoch_micros
from clew.query.names import MalformedNodeIdError, node_kind, resolve_field_id, resolve_node_id


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


def parse_node_kind(node_id: str) -> str:
    """Return the kind of a node id; 400 if it is malformed."""
    try:
        return node_kind(node_id)
    except MalformedNodeIdError as error:
        raise MarquezError(400, str(error).replace("\n", " ")) from None


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


_Transformations = tuple[str | None, str, tuple[ColumnTransformation, ...]]


class FieldSourceSchema(Struct, frozen=True, rename="camel", gc=False):
    """Source column; `transformations` is an extension of clew."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[ColumnTransformation, ...]


class FieldSchema(Struct, frozen=True, rename="camel", gc=False):
    """Column of a graph node."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    field_type: str | None
    transformation_description: str | None
    transformation_type: str | None
    input_fields: list[FieldSourceSchema]


class ColumnLineageHandler:
    """Handler of the column lineage endpoint."""

    def __init__(self, resources: QueryResources) -> None:
        self._resources = resources

    def lineage(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`GET /column-lineage`."""
        node_id, depth = request.required_param("nodeId"), request.int_param("depth", _DEFAULT_DEPTH)
        is_downstream = request.bool_param("withDownstream")
        version = _parse_version(node_id)
        if version is not None and is_downstream:
            raise MarquezError(400, "Node version cannot be specified when withDownstream is set to true")
        start = _find_columns(catalog, node_id)
        if version is not None and parse_node_kind(node_id) != "job" and not _has_version(catalog, start, version):
            raise MarquezError(404, "Could not find node")
        _, graph = self._resources.get_column_graph(catalog.reader)
        numbers = [number for column in start for number in _column_numbers(graph, column)]
        if not numbers:
            if not start:
                raise MarquezError(404, "Could not find node")
            return json_response({"graph": []})
        numbers = find_column_neighbourhood(graph, numbers, depth, is_downstream=is_downstream)
        return json_response({"graph": _column_nodes(catalog, graph, numbers)})


def _parse_version(node_id: str) -> str | None:
    _, mark, version = node_id.rpartition("#")
    return version if mark and len(version) == 36 else None


def _find_columns(catalog: Catalog, node_id: str) -> list[Column]:
    """Return the columns of a node id; a Column without name is a whole dataset."""
    kind = parse_node_kind(node_id)
    if kind == "run":
        raise MarquezError(404, "Could not find node")
    try:
        if kind != "job":
            return [resolve_field_id(catalog.reader, node_id)]
        job = resolve_node_id(catalog.reader, node_id)
    except MalformedNodeIdError as error:
        raise MarquezError(400, str(error).replace("\n", " ")) from None
    except UsageError:
        raise MarquezError(404, "Could not find node") from None
    return [Column(*name) for matched in catalog.jobs_by_name([(job.namespace, job.name)]) for name in matched.outputs]


def _has_version(catalog: Catalog, columns: list[Column], version: str) -> bool:
    return any(catalog.dataset_version((column.namespace, column.dataset), version) is not None for column in columns)


def _column_numbers(graph: ColumnGraph, column: Column) -> Iterable[int]:
    if column.column is None:
        return (
            number
            for number in graph.columns_of(column.namespace, column.dataset)
            if not graph.is_dataset_level(number)
        )
    number = graph.find(column)
    return () if number is None else (number,)


def _column_nodes(catalog: Catalog, graph: ColumnGraph, numbers: list[int]) -> list[NodeSchema]:
    """Build the nodes. As in Marquez, the origin of an inEdge is the node itself."""
    fields, shown = _Fields(catalog, graph, numbers), set(numbers)
    ends = {number: [source for source in sources if source in shown] for number, sources in fields.sources.items()}
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for number, sources in ends.items():
        for source in sources:
            starts[source].append(number)
    ids = {number: column.id for number, column in fields.columns.items()}
    nodes = [
        NodeSchema(
            ids[number],
            "DATASET_FIELD",
            fields.data(number, ends[number]),
            [EdgeSchema(ids[number], ids[source]) for source in ends[number]],
            [EdgeSchema(ids[number], ids[source]) for source in starts[number]],
        )
        for number in numbers
    ]
    return sorted(nodes, key=attrgetter("id"))


class _Fields:
    """Builds the column data of a response."""

    def __init__(self, catalog: Catalog, graph: ColumnGraph, numbers: list[int]) -> None:
        self.columns = {number: graph.column(number) for number in numbers}
        self.sources = {number: graph.sources_of(number) for number in numbers}
        self._graph = graph
        self._dataset_fields = catalog.fields_of(
            {(column.namespace, column.dataset) for column in self.columns.values()}
        )
        self._dataset_level_cache: dict[int, dict[int, list[int]]] = {}
        self._transformations_cache: dict[tuple[int, ...], _Transformations] = {}

    def data(self, number: int, ends: list[int]) -> FieldSchema:
        """Return a column with its source columns."""
        column, inputs = self.columns[number], self._inputs(number, ends) if ends else []
        version, types = self._dataset_fields.get((column.namespace, column.dataset), (None, {}))
        first = inputs[0] if inputs else None
        return FieldSchema(
            column.namespace,
            column.dataset,
            version,
            column.column or "",
            types.get(column.column or ""),
            None if first is None else first.transformation_description,
            None if first is None else first.transformation_type,
            inputs,
        )

    def _inputs(self, number: int, ends: list[int]) -> list[FieldSourceSchema]:
        """Return the sources of a column; dataset-level transformations apply to every column."""
        own, dataset_level, inputs = self.sources[number], self._dataset_level_sources(number), []
        for source in ends:
            transformation_numbers = (
                own[source] if source not in dataset_level else dict.fromkeys((*own[source], *dataset_level[source]))
            )
            column = self.columns[source]
            version, _ = self._dataset_fields.get((column.namespace, column.dataset), (None, None))
            transformations = self._transformations(tuple(transformation_numbers))
            inputs.append(
                FieldSourceSchema(column.namespace, column.dataset, version, column.column or "", *transformations)
            )
        return inputs

    def _dataset_level_sources(self, number: int) -> dict[int, list[int]]:
        dataset_node = self._graph.dataset_node_of[number]
        if dataset_node == number:
            return {}
        if dataset_node not in self._dataset_level_cache:
            self._dataset_level_cache[dataset_node] = self._graph.sources_of(dataset_node)
        return self._dataset_level_cache[dataset_node]

    def _transformations(self, numbers: tuple[int, ...]) -> _Transformations:
        """Return description and type of the first transformation, then all."""
        cached = self._transformations_cache.get(numbers)
        if cached is None:
            transformations = (self._graph.transformations[number] for number in numbers)
            converted = tuple(
                ColumnTransformation(
                    transformation.type, transformation.subtype, transformation.description, transformation.is_masking
                )
                for transformation in transformations
            )
            cached = self._transformations_cache[numbers] = (
                converted[0].description,
                marquez_transformation_type(converted[0]),
                converted,
            )
        return cached
