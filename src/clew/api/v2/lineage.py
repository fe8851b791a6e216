"""Lineage, path, impact and search operations."""

from __future__ import annotations

from typing import Final, get_args

from msgspec import Struct

from clew.api.v2.operation import (
    ApiOperation,
    BoolParam,
    CursorParam,
    EnumParam,
    IntegerParam,
    OperationContext,
    StringParam,
    TimestampParam,
    encode_cursor,
)
from clew.query.graph.traversal import MAX_HOPS, MAX_NODES, Direction
from clew.query.graph.view import RollUp, ViewOptions
from clew.query.lineage import (
    ImpactResult,
    LineageResult,
    PathResult,
    TraversalLimits,
    analyze_impact,
    find_path,
    traverse_lineage,
)
from clew.query.search import MAX_HITS, Hit, search_entities

_NODE = StringParam(
    "nodeId",
    "Start node: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, datasetField:NAMESPACE:DATASET:FIELD or run:UUID.",
    is_required=True,
    example="dataset:file:/data/orders.csv",
)
_COLUMN = StringParam("column", "Column of the dataset; equivalent to a datasetField node.")
_DEPTH = IntegerParam("depth", "Maximum number of hops.", minimum=0, maximum=MAX_HOPS, default_value=20)
_LIMIT = IntegerParam("limit", "Maximum number of nodes.", minimum=1, maximum=MAX_NODES, default_value=1000)
_FRAMES = BoolParam("frames", "Include in-memory frames instead of passing through them.")
_ROLL_UP = EnumParam(
    "rollUp",
    "Replace child jobs by their parent or root job.",
    choices=get_args(RollUp),
    default_value="none",
)
_AS_OF = TimestampParam("asOf", "Lineage as of this time.")


def _view_options(context: OperationContext) -> ViewOptions:
    return ViewOptions(as_of=context["asOf"], roll_up=context["rollUp"], include_frames=context["frames"])


def _limits(context: OperationContext) -> TraversalLimits:
    return TraversalLimits(context["depth"], context["limit"])


def _lineage(context: OperationContext) -> LineageResult:
    return traverse_lineage(
        context.resources,
        context.index,
        context["nodeId"],
        context["column"],
        context["direction"],
        _limits(context),
        _view_options(context),
    )


def _path(context: OperationContext) -> PathResult:
    return find_path(context.resources, context.index, context["from"], context["to"], _view_options(context))


def _impact(context: OperationContext) -> ImpactResult:
    return analyze_impact(
        context.resources,
        context.index,
        context["nodeId"],
        context["column"],
        _limits(context),
        include_frames=context["frames"],
    )


LINEAGE_OPERATIONS: Final = (
    ApiOperation(
        name="lineage",
        path="/api/v2/lineage",
        summary="Get upstream and downstream lineage of a dataset, job, column or run",
        parameters=(
            _NODE,
            _COLUMN,
            EnumParam("direction", "Direction of the traversal.", choices=get_args(Direction), default_value="both"),
            _DEPTH,
            _LIMIT,
            _AS_OF,
            _ROLL_UP,
            _FRAMES,
        ),
        response_type=LineageResult,
        handler=_lineage,
    ),
    ApiOperation(
        name="path",
        path="/api/v2/path",
        summary="Find a shortest path between two jobs or datasets, in the direction of the data flow",
        parameters=(
            StringParam("from", "Start node.", is_required=True, example="dataset:file:/data/orders.csv"),
            StringParam("to", "End node.", is_required=True, example="dataset:file:/data/totals.parquet"),
            _AS_OF,
            _ROLL_UP,
            _FRAMES,
        ),
        response_type=PathResult,
        handler=_path,
    ),
    ApiOperation(
        name="impact",
        path="/api/v2/impact",
        summary="Find what is affected by changing a column or dataset, directly or indirectly",
        parameters=(_NODE, _COLUMN, _DEPTH, _LIMIT, _FRAMES),
        response_type=ImpactResult,
        handler=_impact,
    ),
)


_CURSOR = CursorParam("cursor", "Cursor of the page: next of the previous response.")


class SearchPage(Struct, frozen=True, rename="camel"):
    """Search hits, best match first. Not complete while the search index is behind the query index."""

    hits: tuple[Hit, ...]
    total: int
    is_complete: bool
    did_you_mean: tuple[str, ...]
    next: str | None


def _search(context: OperationContext) -> SearchPage:
    values = _CURSOR.check_values(context["cursor"], int)
    offset, limit = 0 if values is None else max(0, min(values[0], MAX_HITS)), context["limit"]
    result = search_entities(
        context.resources.search_index,
        context.index,
        context["q"],
        kind=context["kind"],
        namespace=context["namespace"],
        limit=limit,
        offset=offset,
    )
    end = offset + limit
    return SearchPage(
        result.hits,
        result.total,
        result.is_complete,
        result.did_you_mean,
        encode_cursor(end) if end < min(result.total, MAX_HITS) else None,
    )


SEARCH_OPERATIONS: Final = (
    ApiOperation(
        "search",
        "/api/v2/search",
        "Search jobs and datasets by name, column, description, tag, code and facet; runs by id",
        (
            StringParam("q", "Words or prefixes of words; all must match.", is_required=True, example="orders"),
            EnumParam("kind", "Only jobs or only datasets.", choices=("dataset", "job")),
            StringParam("namespace", "Only this namespace."),
            IntegerParam("limit", "Maximum number of results.", minimum=1, maximum=200, default_value=20),
            _CURSOR,
        ),
        SearchPage,
        _search,
    ),
)
