"""Who stands next to whom: datasets and the jobs between them, a notebook's many operations as one job."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from clew.errors import UsageError
from clew.events.notebook import FRAMES
from clew.index.browsing import Browser
from clew.index.reader import Row
from clew.query.views.model import Name, NodeKind, told_as

Side = Literal["up", "down"]
# What encodeURIComponent leaves alone, so that both sides write a node alike.
_PLAIN = "!*'()"


class Node(Struct, frozen=True, order=True):
    """A dataset or a job in the graph."""

    kind: NodeKind
    name: Name

    @property
    def id(self) -> str:
        """The node in one text: names may hold any character, so each part is encoded."""
        return f"{self.kind}/{quote(self.name.namespace, safe=_PLAIN)}/{quote(self.name.name, safe=_PLAIN)}"

    @classmethod
    def of(cls, text: str) -> Node:
        """The node of that id."""
        parts = [unquote(part) for part in text.split("/")]
        match parts:
            case ["dataset" | "job" as kind, namespace, name] if name:
                return cls(kind, Name(namespace, name))
        raise UsageError(f"{text!r} names no node.", hint="Write dataset/NAMESPACE/NAME, each part URL-encoded.")


class Neighbours:
    """The graph's edges, asked for as they are needed and remembered."""

    def __init__(self, index: Browser, as_of: datetime | None = None) -> None:
        self._index = index
        self._as_of = None if as_of is None else round(as_of.timestamp() * 1_000_000)
        self._known: dict[tuple[Node, Side], tuple[Node, ...]] = {}

    def of(self, node: Node, side: Side) -> tuple[Node, ...]:
        """The nodes right before or after a node, the last touched first."""
        key = (node, side)
        if key not in self._known:
            found = self._jobs(node, side) if node.kind == "dataset" else self._datasets(node, side)
            self._known[key] = tuple(dict.fromkeys(one for one in found if one != node))
        return self._known[key]

    def node(self, node: Node) -> Node:
        """The node that stands for a name: a symlink's target, the notebook of an operation."""
        if node.kind == "dataset":
            return Node("dataset", Name(*self._index.node_of(node.name.parts)))
        return Node("job", told_as(node.name))

    def names(self, dataset: Node) -> list[Name]:
        """All names of a dataset."""
        return [Name(*one) for one in self._index.names_of(dataset.name.parts)]

    def operations(self, job: Node) -> list[Name]:
        """A job, and, if it is a notebook, the jobs of its operations."""
        return [Name(*one) for one in self._index.job_and_operations(job.name.parts)]

    def _jobs(self, dataset: Node, side: Side) -> list[Node]:
        direction = "OUTPUT" if side == "up" else "INPUT"
        rows = [row for name in self.names(dataset) for row in self._index.jobs_touching(name.parts, direction)]
        return [
            self.node(Node("job", Name(row["job_namespace"], row["job_name"]))) for row in rows if self._was_there(row)
        ]

    def _datasets(self, job: Node, side: Side) -> list[Node]:
        direction = "INPUT" if side == "up" else "OUTPUT"
        rows = [row for name in self.operations(job) for row in self._index.datasets_touched(name.parts, direction)]
        # A frame that lives in memory is part of the notebook's own story.
        kept = [row for row in rows if row["dataset_namespace"] != FRAMES and self._was_there(row)]
        return [self.node(Node("dataset", Name(row["dataset_namespace"], row["dataset_name"]))) for row in kept]

    def _was_there(self, row: Row) -> bool:
        if self._as_of is None:
            return True
        at = self._index.first_seen(
            (row["job_namespace"], row["job_name"]), row["direction"], (row["dataset_namespace"], row["dataset_name"])
        )
        return at is not None and at <= self._as_of
