"""Graph nodes in Marquez's format, and their ids."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from clew.api.marquez.requests import MarquezError
from clew.query.node_ids import MalformedNodeIdError, node_kind


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
