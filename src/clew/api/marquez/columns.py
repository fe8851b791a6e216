"""Lineage of columns as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from clew.api.marquez.nodes import Edge, NodeShape, kind_in
from clew.api.marquez.reading import answer
from clew.api.marquez.requests import Answer, Asked, Refusal
from clew.api.marquez.shapes import transformation_type
from clew.errors import UsageError
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import Transformation
from clew.query.catalog.surroundings import columns_around
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.nodes import Column
from clew.query.holdings import Holdings
from clew.query.node_ids import MalformedNodeError, find_field, find_node

_DEPTH = 20


class FieldSource(Struct, frozen=True, rename="camel"):
    """A column that another came from; `transformations` is what Marquez leaves out."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[Transformation, ...]


class FieldData(Struct, frozen=True, rename="camel"):
    """A column as a node has it."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    field_type: str | None
    transformation_description: str | None
    transformation_type: str | None
    input_fields: list[FieldSource]


class ColumnGraphs:
    """The endpoint that walks from column to column."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings

    def lineage(self, catalog: Catalog, asked: Asked) -> Answer:
        """`GET /column-lineage`."""
        node_id, depth = asked.required("nodeId"), asked.number("depth", _DEPTH)
        is_downstream = asked.flag("withDownstream")
        version = _version_in(node_id)
        if version is not None and is_downstream:
            raise Refusal(400, "Node version cannot be specified when withDownstream is set to true")
        start = _columns(catalog, node_id)
        if version is not None and kind_in(node_id) != "job" and not _has_version(catalog, start, version):
            raise Refusal(404, "Could not find node")
        _, graph = self._holdings.columns(catalog.reader)
        numbers = [number for column in start for number in _numbers(graph, column)]
        if not numbers:
            if not start:
                raise Refusal(404, "Could not find node")
            return answer({"graph": []})
        found = columns_around(graph, numbers, depth, is_downstream=is_downstream)
        return answer({"graph": _column_nodes(catalog, graph, found)})


def _version_in(node_id: str) -> str | None:
    _, mark, version = node_id.rpartition("#")
    return version if mark and len(version) == 36 else None


def _columns(catalog: Catalog, node_id: str) -> list[Column]:
    """The columns, or the datasets as a whole, that a node id stands for."""
    kind = kind_in(node_id)
    if kind == "run":
        raise Refusal(404, "Could not find node")
    try:
        if kind != "job":
            return [find_field(catalog.reader, node_id)]
        job = find_node(catalog.reader, node_id)
    except MalformedNodeError as fault:
        raise Refusal(400, str(fault).replace("\n", " ")) from None
    except UsageError:
        raise Refusal(404, "Could not find node") from None
    return [Column(*name) for one in catalog.jobs_named([(job.namespace, job.name)]) for name in one.outputs]


def _has_version(catalog: Catalog, columns: list[Column], version: str) -> bool:
    return any(catalog.dataset_version((one.namespace, one.dataset), version) is not None for one in columns)


def _numbers(graph: ColumnGraph, column: Column) -> Iterable[int]:
    if column.column is None:
        return (one for one in graph.columns_of(column.namespace, column.dataset) if not graph.is_whole(one))
    number = graph.find(column)
    return () if number is None else (number,)


def _column_nodes(catalog: Catalog, graph: ColumnGraph, numbers: list[int]) -> list[NodeShape]:
    """Nodes of columns. Edges into a node begin at it, as Marquez writes them."""
    shown = set(numbers)
    ends: dict[int, list[int]] = {
        number: [one for one in dict.fromkeys(graph.backward.ends_of(number)) if one in shown] for number in numbers
    }
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for number, sources in ends.items():
        for one in sources:
            starts[one].append(number)
    columns = {number: graph.column(number) for number in numbers}
    known = catalog.fields_of({(one.namespace, one.dataset) for one in columns.values()})
    return sorted(
        (
            NodeShape(
                columns[number].id,
                "DATASET_FIELD",
                Raw(msgspec.json.encode(_field_data(graph, columns, number, ends[number], known))),
                [Edge(columns[number].id, columns[one].id) for one in ends[number]],
                [Edge(columns[number].id, columns[one].id) for one in starts[number]],
            )
            for number in numbers
        ),
        key=lambda node: node.id,
    )


def _field_data(
    graph: ColumnGraph,
    columns: dict[int, Column],
    number: int,
    ends: list[int],
    known: dict[tuple[str, str], tuple[str | None, dict[str, str | None]]],
) -> FieldData:
    how: defaultdict[int, dict[Transformation, None]] = defaultdict(dict)
    for step in graph.steps(number, is_forward=False):
        said = step.transformation
        how[step.end][Transformation(said.type, said.subtype, said.description, said.is_masking)] = None
    inputs = [_field_source(columns[one], tuple(how[one]), known) for one in ends]
    column = columns[number]
    version, types = known.get((column.namespace, column.dataset), (None, {}))
    first = inputs[0] if inputs else None
    return FieldData(
        column.namespace,
        column.dataset,
        version,
        column.column or "",
        types.get(column.column or ""),
        None if first is None else first.transformation_description,
        None if first is None else first.transformation_type,
        inputs,
    )


def _field_source(
    column: Column,
    how: tuple[Transformation, ...],
    known: dict[tuple[str, str], tuple[str | None, dict[str, str | None]]],
) -> FieldSource:
    version, _ = known.get((column.namespace, column.dataset), (None, {}))
    return FieldSource(
        column.namespace,
        column.dataset,
        version,
        column.column or "",
        how[0].description if how else None,
        transformation_type(how[0]) if how else None,
        how,
    )
