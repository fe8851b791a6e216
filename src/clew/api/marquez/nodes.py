"""Nodes of graphs as Marquez writes them, and their ids."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from clew.api.marquez.requests import Refusal
from clew.query.node_ids import MalformedNodeError, kind_of


# There may be ten thousands of them in an answer: without `gc=False` they are looked through again and again.
class Edge(Struct, frozen=True, gc=False):
    """Two nodes by their ids."""

    origin: str
    destination: str


class NodeShape(Struct, frozen=True, rename="camel", gc=False):
    """A node, with what it is and the edges that meet it."""

    id: str
    type: Literal["DATASET", "JOB", "DATASET_FIELD"]
    data: Raw | Struct
    in_edges: list[Edge]
    out_edges: list[Edge]


def kind_in(node_id: str) -> str:
    """What kind of node an id names."""
    try:
        return kind_of(node_id)
    except MalformedNodeError as fault:
        raise Refusal(400, str(fault).replace("\n", " ")) from None
