"""Lineage, path, impact and search operations."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, field

from clew.api.v2.operation import (
    CursorParam,
    OperationContext,
    RequestParameters,
    TextParam,
    TimestampParam,
    api_operation,
    decode_cursor,
    encode_cursor,
    parse_past_micros,
)
from clew.query.graph.traversal import MAX_HOPS, MAX_NODES, Direction
from clew.query.graph.view import RollUp, ViewOptions
from clew.query.lineage import ImpactResult, LineageResult, PathResult, TraversalLimits
from clew.query.names import resolve_id, resolve_node_id
from clew.query.search import MAX_HITS, Hit

_Node: TypeAlias = Annotated[
    TextParam,
    Meta(
        description="Start node: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, "
        "datasetField:NAMESPACE:DATASET:FIELD or run:UUID.",
        examples=["dataset:file:/data/orders.csv"],
    ),
]
_Column: TypeAlias = Annotated[
    TextParam | None, Meta(description="Column of the dataset; equivalent to a datasetField node.")
]
_Depth: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_HOPS, description="Maximum number of hops.")]
_NodeLimit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_NODES, description="Maximum number of nodes.")]
_Frames: TypeAlias = Annotated[bool, Meta(description="Include in-memory frames instead of passing through them.")]
_RollUp: TypeAlias = Annotated[RollUp, Meta(description="Replace child jobs by their parent or root job.")]
_AsOf: TypeAlias = Annotated[TimestampParam | None, Meta(description="Lineage as of this time.")]


class _LineageParameters(RequestParameters):
    node_id: _Node
    column: _Column = None
    direction: Annotated[Direction, Meta(description="Direction of the traversal.")] = "both"
    depth: _Depth = 20
    limit: _NodeLimit = 1000
    as_of: _AsOf = None
    roll_up: _RollUp = "none"
    frames: _Frames = False


class _PathParameters(RequestParameters):
    source: Annotated[TextParam, Meta(description="Start node.", examples=["dataset:file:/data/orders.csv"])] = field(
        name="from"
    )
    target: Annotated[TextParam, Meta(description="End node.", examples=["dataset:file:/data/totals.parquet"])] = field(
        name="to"
    )
    as_of: _AsOf = None
    roll_up: _RollUp = "none"
    frames: _Frames = False


class _ImpactParameters(RequestParameters):
    node_id: _Node
    column: _Column = None
    depth: _Depth = 20
    limit: _NodeLimit = 1000
    frames: _Frames = False


def _view_options(parameters: _LineageParameters | _PathParameters) -> ViewOptions:
    as_of = parse_past_micros("asOf", parameters.as_of)
    return ViewOptions(as_of=as_of, roll_up=parameters.roll_up, include_frames=parameters.frames)


@api_operation("lineage", "/api/v2/lineage", "Get upstream and downstream lineage of a dataset, job, column or run")
def _lineage(context: OperationContext, parameters: _LineageParameters) -> LineageResult:
    start = resolve_id(context.index, parameters.node_id, parameters.column)
    limits = TraversalLimits(parameters.depth, parameters.limit)
    return context.service.traverse(start, parameters.direction, limits, _view_options(parameters))


@api_operation(
    "path", "/api/v2/path", "Find a shortest path between two jobs or datasets, in the direction of the data flow"
)
def _path(context: OperationContext, parameters: _PathParameters) -> PathResult:
    start, end = (resolve_node_id(context.index, text) for text in (parameters.source, parameters.target))
    return context.service.find_node_path(start, end, _view_options(parameters))


@api_operation(
    "impact", "/api/v2/impact", "Find what is affected by changing a column or dataset, directly or indirectly"
)
def _impact(context: OperationContext, parameters: _ImpactParameters) -> ImpactResult:
    target = resolve_id(context.index, parameters.node_id, parameters.column)
    limits = TraversalLimits(parameters.depth, parameters.limit)
    return context.service.analyze_impact(target, limits, include_frames=parameters.frames)


class _SearchParameters(RequestParameters):
    q: Annotated[TextParam, Meta(description="Words or prefixes of words; all must match.", examples=["orders"])]
    kind: Annotated[Literal["dataset", "job"] | None, Meta(description="Only jobs or only datasets.")] = None
    namespace: Annotated[TextParam | None, Meta(description="Only this namespace.")] = None
    limit: Annotated[int, Meta(ge=1, le=200, description="Maximum number of results.")] = 20
    cursor: CursorParam = None


class SearchPage(Struct, frozen=True, rename="camel"):
    """Search hits, best match first. Not complete while the search index is behind the query index."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...]
    next: str | None


@api_operation(
    "search",
    "/api/v2/search",
    "Search jobs and datasets by name, column, description, tag, code and facet; runs by id",
)
def _search(context: OperationContext, parameters: _SearchParameters) -> SearchPage:
    values = decode_cursor(parameters.cursor, tuple[int])
    offset = 0 if values is None else max(0, min(values[0], MAX_HITS))
    result = context.service.search(
        parameters.q,
        kind=parameters.kind,
        namespace=parameters.namespace,
        limit=parameters.limit,
        offset=offset,
    )
    end = offset + parameters.limit
    return SearchPage(
        result.hits,
        result.total,
        result.is_complete,
        result.did_you_mean,
        encode_cursor(end) if end < min(result.total, MAX_HITS) else None,
    )


LINEAGE_OPERATIONS: Final = (_lineage, _path, _impact)
SEARCH_OPERATIONS: Final = (_search,)
