"""Column lineage endpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct

from clew.api.marquez.column_shapes import marquez_transformation_type
from clew.api.marquez.nodes import EdgeSchema, NodeSchema, parse_node_kind
from clew.api.marquez.reading import json_response
from clew.api.marquez.requests import MarquezError, MarquezRequest, MarquezResponse
from clew.errors import UsageError
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import ColumnTransformation
from clew.query.catalog.surroundings import find_column_neighbourhood
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.nodes import Column
from clew.query.holdings import QueryResources
from clew.query.node_ids import MalformedNodeIdError, resolve_field_id, resolve_node_id

_DEFAULT_DEPTH = 20
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
