"""Lineage of columns as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter

from msgspec import Struct

from clew.api.marquez.column_shapes import transformation_type
from clew.api.marquez.nodes import Edge, NodeShape, kind_in
from clew.api.marquez.reading import answer
from clew.api.marquez.requests import Answer, Asked, Refusal
from clew.errors import UsageError
from clew.query.catalog.catalog import Catalog
from clew.query.catalog.model import Transformation
from clew.query.catalog.surroundings import columns_around
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.nodes import Column
from clew.query.holdings import Holdings
from clew.query.node_ids import MalformedNodeError, find_field, find_node

_DEPTH = 20
_How = tuple[str | None, str, tuple[Transformation, ...]]


class FieldSource(Struct, frozen=True, rename="camel", gc=False):
    """A column that another came from; `transformations` is what Marquez leaves out."""

    namespace: str
    dataset: str
    dataset_version: str | None
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[Transformation, ...]


class FieldData(Struct, frozen=True, rename="camel", gc=False):
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
    fields, shown = _Fields(catalog, graph, numbers), set(numbers)
    ends = {number: [one for one in sources if one in shown] for number, sources in fields.sources.items()}
    starts: defaultdict[int, list[int]] = defaultdict(list)
    for number, sources in ends.items():
        for one in sources:
            starts[one].append(number)
    ids = {number: column.id for number, column in fields.columns.items()}
    nodes = [
        NodeShape(
            ids[number],
            "DATASET_FIELD",
            fields.data(number, ends[number]),
            [Edge(ids[number], ids[one]) for one in ends[number]],
            [Edge(ids[number], ids[one]) for one in starts[number]],
        )
        for number in numbers
    ]
    return sorted(nodes, key=attrgetter("id"))


class _Fields:
    """What is said of columns in an answer."""

    def __init__(self, catalog: Catalog, graph: ColumnGraph, numbers: list[int]) -> None:
        self.columns = {number: graph.column(number) for number in numbers}
        self.sources = {number: graph.sources_of(number) for number in numbers}
        self._graph = graph
        self._known = catalog.fields_of({(one.namespace, one.dataset) for one in self.columns.values()})
        self._wholes: dict[int, dict[int, list[int]]] = {}
        self._hows: dict[tuple[int, ...], _How] = {}

    def data(self, number: int, ends: list[int]) -> FieldData:
        """A column, with those that it came from."""
        column, inputs = self.columns[number], self._inputs(number, ends) if ends else []
        version, types = self._known.get((column.namespace, column.dataset), (None, {}))
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

    def _inputs(self, number: int, ends: list[int]) -> list[FieldSource]:
        """Of those that went into a column, how they did; what is said of its dataset as a whole is said of it, too."""
        own, whole, inputs = self.sources[number], self._of_whole(number), []
        for one in ends:
            said = own[one] if one not in whole else dict.fromkeys((*own[one], *whole[one]))
            column = self.columns[one]
            version, _ = self._known.get((column.namespace, column.dataset), (None, None))
            how = self._how(tuple(said))
            inputs.append(FieldSource(column.namespace, column.dataset, version, column.column or "", *how))
        return inputs

    def _of_whole(self, number: int) -> dict[int, list[int]]:
        whole = self._graph.whole_of[number]
        if whole == number:
            return {}
        if whole not in self._wholes:
            self._wholes[whole] = self._graph.sources_of(whole)
        return self._wholes[whole]

    def _how(self, numbers: tuple[int, ...]) -> _How:
        """Transformations by their numbers, with what the first says where Marquez has room for one."""
        known = self._hows.get(numbers)
        if known is None:
            said = (self._graph.transformations[number] for number in numbers)
            how = tuple(Transformation(one.type, one.subtype, one.description, one.is_masking) for one in said)
            known = self._hows[numbers] = how[0].description, transformation_type(how[0]), how
        return known
