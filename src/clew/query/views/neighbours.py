"""Neighbours in the graph of datasets and jobs; all operations of a notebook are one job."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from clew.errors import UsageError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.browsing import PageQueries
from clew.index.reader import Row
from clew.query.views.model import EntityName, NodeKind, display_job

Side = Literal["up", "down"]
# Characters that encodeURIComponent leaves unescaped, so that the web UI builds the same ids.
_SAFE = "!*'()"


class GraphNodeRef(Struct, frozen=True, order=True):
    """A dataset or a job in the graph."""

    kind: NodeKind
    name: EntityName

    @property
    def id(self) -> str:
        """URL-encoded id: `kind/namespace/name`."""
        return f"{self.kind}/{quote(self.name.namespace, safe=_SAFE)}/{quote(self.name.name, safe=_SAFE)}"

    @classmethod
    def parse(cls, text: str) -> GraphNodeRef:
        """Parse a node id."""
        parts = [unquote(part) for part in text.split("/")]
        match parts:
            case ["dataset" | "job" as kind, namespace, name] if name:
                return cls(kind, EntityName(namespace, name))
        raise UsageError(
            f"Invalid node id {text!r}.",
            hint="Use dataset/NAMESPACE/NAME or job/NAMESPACE/NAME, each part URL-encoded.",
        )


class NeighbourCache:
    """Neighbours of nodes, loaded on demand and cached."""

    def __init__(self, index: PageQueries, as_of: datetime | None = None) -> None:
        self._index = index
        self._as_of = None if as_of is None else round(as_of.timestamp() * 1_000_000)
        self._cached: dict[tuple[GraphNodeRef, Side], tuple[GraphNodeRef, ...]] = {}

    def get(self, node: GraphNodeRef, side: Side) -> tuple[GraphNodeRef, ...]:
        """Return the nodes directly upstream or downstream of a node, last updated first."""
        key = (node, side)
        if key not in self._cached:
            nodes = self._jobs(node, side) if node.kind == "dataset" else self._datasets(node, side)
            self._cached[key] = tuple(dict.fromkeys(other for other in nodes if other != node))
        return self._cached[key]

    def canonical(self, node: GraphNodeRef) -> GraphNodeRef:
        """Return the canonical node: the target of a symlink, or the notebook of an operation."""
        if node.kind == "dataset":
            return GraphNodeRef("dataset", EntityName(*self._index.canonical_name(node.name.key)))
        return GraphNodeRef("job", display_job(node.name))

    def aliases(self, dataset: GraphNodeRef) -> list[EntityName]:
        """Return all names of a dataset."""
        return [EntityName(*key) for key in self._index.aliases_of(dataset.name.key)]

    def operations(self, job: GraphNodeRef) -> list[EntityName]:
        """Return a job and, for a notebook, the jobs of its operations."""
        return [EntityName(*key) for key in self._index.job_and_operations(job.name.key)]

    def _jobs(self, dataset: GraphNodeRef, side: Side) -> list[GraphNodeRef]:
        direction = "OUTPUT" if side == "up" else "INPUT"
        rows = [row for name in self.aliases(dataset) for row in self._index.jobs_using(name.key, direction)]
        return [
            self.canonical(GraphNodeRef("job", EntityName(row["job_namespace"], row["job_name"])))
            for row in rows
            if self._existed_at(row)
        ]

    def _datasets(self, job: GraphNodeRef, side: Side) -> list[GraphNodeRef]:
        direction = "INPUT" if side == "up" else "OUTPUT"
        rows = [row for name in self.operations(job) for row in self._index.datasets_used_by(name.key, direction)]
        # In-memory frames are shown on the notebook page only.
        visible = [row for row in rows if row["dataset_namespace"] != NOTEBOOK_NAMESPACE and self._existed_at(row)]
        return [
            self.canonical(GraphNodeRef("dataset", EntityName(row["dataset_namespace"], row["dataset_name"])))
            for row in visible
        ]

    def _existed_at(self, row: Row) -> bool:
        if self._as_of is None:
            return True
        at = self._index.first_seen(
            (row["job_namespace"], row["job_name"]), row["direction"], (row["dataset_namespace"], row["dataset_name"])
        )
        return at is not None and at <= self._as_of
