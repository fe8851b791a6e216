"""Lineage, ways between nodes, and what a change reaches."""

from __future__ import annotations

from typing import Final, get_args

from clew.api.operations import Asked, Operation
from clew.api.parameters import Choice, Flag, Integer, Text, Time
from clew.query.graph.lens import RollUp, Sight
from clew.query.graph.walk import MOST_HOPS, MOST_NODES, Direction
from clew.query.lineage import Bounds, Impact, Lineage, Path, impact, lineage, way

_NODE = Text(
    "nodeId",
    "What to start from: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME, datasetField:NAMESPACE:DATASET:FIELD or run:UUID.",
    is_required=True,
    example="dataset:file:/data/orders.csv",
)
_COLUMN = Text("column", "A column of the dataset; the same as naming a datasetField.")
_DEPTH = Integer("depth", "How many hops to go.", least=0, most=MOST_HOPS, usual=20)
_LIMIT = Integer("limit", "How many nodes to tell at most.", least=1, most=MOST_NODES, usual=1000)
_FRAMES = Flag("frames", "Show datasets that were only ever in memory, instead of passing through them.")
_ROLL_UP = Choice(
    "rollUp",
    "Show jobs that others have started as the one that started them (parent), or as the first of all (root).",
    words=get_args(RollUp),
    usual="none",
)
_AS_OF = Time("asOf", "Only what was known by then.")


def _sight(asked: Asked) -> Sight:
    return Sight(as_of=asked["asOf"], roll_up=asked["rollUp"], has_frames=asked["frames"])


def _bounds(asked: Asked) -> Bounds:
    return Bounds(asked["depth"], asked["limit"])


def _lineage(asked: Asked) -> Lineage:
    return lineage(
        asked.holdings,
        asked.index,
        asked["nodeId"],
        asked["column"],
        asked["direction"],
        _bounds(asked),
        _sight(asked),
    )


def _path(asked: Asked) -> Path:
    return way(asked.holdings, asked.index, asked["from"], asked["to"], _sight(asked))


def _impact(asked: Asked) -> Impact:
    return impact(
        asked.holdings, asked.index, asked["nodeId"], asked["column"], _bounds(asked), has_frames=asked["frames"]
    )


LINEAGE_OPERATIONS: Final = (
    Operation(
        name="lineage",
        path="/api/v2/lineage",
        summary="What a dataset, a job, a column or a run was made from, and what was made of it",
        parameters=(
            _NODE,
            _COLUMN,
            Choice("direction", "Which way to go.", words=get_args(Direction), usual="both"),
            _DEPTH,
            _LIMIT,
            _AS_OF,
            _ROLL_UP,
            _FRAMES,
        ),
        answer=Lineage,
        ask=_lineage,
    ),
    Operation(
        name="path",
        path="/api/v2/path",
        summary="A shortest way between two jobs or datasets, along the flow of data",
        parameters=(
            Text("from", "The node to start from.", is_required=True, example="dataset:file:/data/orders.csv"),
            Text("to", "The node to come to.", is_required=True, example="dataset:file:/data/totals.parquet"),
            _AS_OF,
            _ROLL_UP,
            _FRAMES,
        ),
        answer=Path,
        ask=_path,
    ),
    Operation(
        name="impact",
        path="/api/v2/impact",
        summary="What a change of a column, or of a dataset, would reach, and whether through its values",
        parameters=(_NODE, _COLUMN, _DEPTH, _LIMIT, _FRAMES),
        answer=Impact,
        ask=_impact,
    ),
)
