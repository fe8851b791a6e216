"""Statements of lineage: what an event says of one target, in an explicit lineage facet or in a columnLineage facet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Final, NamedTuple

from clew.events.column_lineage import StatedEdge, edges_of
from clew.events.deletion import is_deleted
from clew.events.explicit_lineage import DATASET, JOB, Entity, entries_of, explicit_edges_of, is_statement, sources_of
from clew.events.explicit_lineage import FACET as LINEAGE
from clew.events.nodes import Name
from clew.events.openlineage import Dataset, Event, version_of

COLUMN_LINEAGE: Final = "columnLineage"
BETWEEN: Final = " "
# The name of the set of edges of a statement that was taken back.
TAKEN_BACK: Final = ""


class Statement(NamedTuple):
    """What is said of one dataset; `body` is the facet, or the entry of a facet."""

    origin: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str | None
    body: bytes

    @property
    def text(self) -> bytes:
        """The body with its origin before it: the two facets have keys in common, and the same body is two texts."""
        return f"{self.origin}{BETWEEN}".encode() + self.body


class Link(NamedTuple):
    """What an entry of a job's lineage facet says: all that feeds a dataset or a job."""

    target: Entity
    sources: tuple[Entity, ...]

    @property
    def name(self) -> Name:
        """The name of the target."""
        return _name(self.target)


def statements_of(event: Event) -> list[Statement]:
    """All statements of an event, an explicit one before one on columns."""
    found: list[Statement] = []
    for output in event.outputs or ():
        if output.facets:
            found += _of_dataset(output)
    if event.job is not None and event.job.facets and LINEAGE in event.job.facets:
        found += explicit_statements_of(bytes(event.job.facets[LINEAGE]))
    if event.dataset is not None and event.dataset.facets and event.kind == "DATASET":
        found += _of_dataset(event.dataset)
    return found


def explicit_statements_of(facet: bytes) -> Iterator[Statement]:
    """What a job's lineage facet says of datasets."""
    for entry in entries_of(facet):
        if entry.target.type == DATASET:
            # An entry does not name the version of its target: the run's output does.
            yield Statement(LINEAGE, *_name(entry.target), None, entry.body)


def links_of(facet: bytes, own_job: Name) -> list[Link]:
    """What a job's lineage facet says, with the event's own job by its name."""
    return [
        Link(_named(entry.target, own_job), tuple(sorted({_named(one, own_job) for one in sources_of(entry.body)})))
        for entry in entries_of(facet)
    ]


def edge_set_of(text: bytes) -> str:
    """The name of a statement's edges, by what they are: a job says the same of its output run after run."""
    # A name, not a secret: Spark has the same function.
    return md5(text, usedforsecurity=False).hexdigest()


def stated_edges_of(text: bytes) -> list[StatedEdge] | None:
    """The edges that a statement states, be it none; None if it takes back what was stated before."""
    origin, _, body = text.partition(BETWEEN.encode())
    if origin == LINEAGE.encode():
        return list(explicit_edges_of(body)) if is_statement(body) else None
    return None if is_deleted(body) else list(edges_of(body))


def sources_in(edges: Iterable[StatedEdge]) -> tuple[Name, ...]:
    """The datasets that edges come from, each once and in order."""
    return tuple(sorted({(edge.source_namespace, edge.source_name) for edge in edges}))


def implied_inputs_of(event: Event) -> set[Name]:
    """The datasets that an event's lineage comes from and that are not among its inputs."""
    texts = [statement.text for statement in statements_of(event)]
    found = {source for text in texts for source in sources_in(stated_edges_of(text) or ())}
    found |= _consumed(event)
    return found - {(dataset.namespace, dataset.name) for dataset in event.inputs or ()}


def _consumed(event: Event) -> set[Name]:
    """What the event's own job is said to read."""
    if event.job is None or not event.job.facets or LINEAGE not in event.job.facets:
        return set()
    own = event.job.namespace, event.job.name
    links = links_of(bytes(event.job.facets[LINEAGE]), own)
    return {name for link in links if link.target == (JOB, *own) for name in datasets_among(link.sources)}


def datasets_among(entities: Iterable[Entity]) -> list[Name]:
    """The datasets among what an entry names."""
    return [_name(entity) for entity in entities if entity.type == DATASET]


def jobs_among(entities: Iterable[Entity]) -> list[Name]:
    """The jobs among what an entry names."""
    return [_name(entity) for entity in entities if entity.type == JOB]


def _of_dataset(dataset: Dataset) -> Iterator[Statement]:
    facets = dataset.facets or {}
    # Spec: a RunEvent says it of its job; said of an output, it is no less clear.
    if LINEAGE in facets:
        yield Statement(LINEAGE, dataset.namespace, dataset.name, None, bytes(facets[LINEAGE]))
    if COLUMN_LINEAGE in facets:
        body = bytes(facets[COLUMN_LINEAGE])
        yield Statement(COLUMN_LINEAGE, dataset.namespace, dataset.name, version_of(facets), body)


def _name(entity: Entity) -> Name:
    return entity.namespace or "", entity.name or ""


def _named(entity: Entity, own_job: Name) -> Entity:
    return Entity(JOB, *own_job) if entity.type == JOB and entity.name is None else entity
