"""Lineage, path and impact."""

from __future__ import annotations

from typing import Final, get_args

from clew.api.operations import ApiOperation, OperationContext
from clew.api.parameters import BoolParam, EnumParam, IntegerParam, StringParam, TimestampParam
from clew.query.graph.lens import RollUp, ViewOptions
from clew.query.graph.walk import MAX_HOPS, MAX_NODES, Direction
from clew.query.lineage import (
    ImpactResult,
    LineageResult,
    PathResult,
    TraversalLimits,
    analyze_impact,
    find_path,
    traverse_lineage,
)

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
