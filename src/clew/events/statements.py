"""Lineage assertions: the lineage of one target according to one event.

An assertion comes from a `lineage` facet (explicit lineage) or from a `columnLineage` facet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5
from typing import Final, NamedTuple

from clew.events.column_lineage import ColumnEdge, parse_column_lineage
from clew.events.deletion import is_deleted
from clew.events.explicit_lineage import (
    DATASET,
    JOB,
    LINEAGE_FACET,
    NodeRef,
    has_lineage,
    parse_entries,
    parse_explicit_edges,
    parse_sources,
)
from clew.events.nodes import Name
from clew.events.openlineage import Dataset, Event, parse_dataset_version

COLUMN_LINEAGE: Final = "columnLineage"
ORIGIN_SEPARATOR: Final = " "
# Edge set id of a retracted assertion.
RETRACTED: Final = ""


class LineageAssertion(NamedTuple):
    """Lineage of one dataset; `body` is the facet, or an entry of it."""

    origin: str
    dataset_namespace: str
    dataset_name: str
    dataset_version: str | None
    body: bytes

    @property
    def tagged_body(self) -> bytes:
        """Body prefixed with its origin: the two facet types may have equal bodies, but different edges."""
        return f"{self.origin}{ORIGIN_SEPARATOR}".encode() + self.body


class LineageLink(NamedTuple):
    """An entry of a job's lineage facet: a dataset or a job with all its sources."""

    target: NodeRef
    sources: tuple[NodeRef, ...]

    @property
    def name(self) -> Name:
        """Namespace and name of the target."""
        return _name_of(self.target)


def parse_assertions(event: Event) -> list[LineageAssertion]:
    """Parse the assertions of an event; explicit ones precede those of columnLineage facets."""
    assertions: list[LineageAssertion] = []
    for output in event.outputs or ():
        if output.facets:
            assertions += _dataset_assertions(output)
    if event.job is not None and event.job.facets and LINEAGE_FACET in event.job.facets:
        assertions += parse_explicit_assertions(bytes(event.job.facets[LINEAGE_FACET]))
    if event.dataset is not None and event.dataset.facets and event.kind == "DATASET":
        assertions += _dataset_assertions(event.dataset)
    return assertions


def parse_explicit_assertions(facet: bytes) -> Iterator[LineageAssertion]:
    """Yield the assertions on datasets in a job's lineage facet."""
    for entry in parse_entries(facet):
        if entry.target.type == DATASET:
            # An entry has no dataset version; the output of the run has it.
            yield LineageAssertion(LINEAGE_FACET, *_name_of(entry.target), None, entry.body)


def parse_links(facet: bytes, own_job: Name) -> list[LineageLink]:
    """Parse the entries of a job's lineage facet, with the name of the event's own job filled in."""
    return [
        LineageLink(
            _with_own_job(entry.target, own_job),
            tuple(sorted({_with_own_job(source, own_job) for source in parse_sources(entry.body)})),
        )
        for entry in parse_entries(facet)
    ]


def compute_edge_set_id(tagged_body: bytes) -> str:
    """Return the id of a set of edges: a hash of its content, as most runs of a job assert the same edges."""
    # MD5 because Spark has it too.
    return md5(tagged_body, usedforsecurity=False).hexdigest()


def parse_asserted_edges(tagged_body: bytes) -> list[ColumnEdge] | None:
    """Parse the edges of an assertion; None if it is a retraction."""
    origin, _, body = tagged_body.partition(ORIGIN_SEPARATOR.encode())
    if origin == LINEAGE_FACET.encode():
        return list(parse_explicit_edges(body)) if has_lineage(body) else None
    return None if is_deleted(body) else list(parse_column_lineage(body))


def source_datasets(edges: Iterable[ColumnEdge]) -> tuple[Name, ...]:
    """Return the distinct source datasets of edges, sorted."""
    return tuple(sorted({(edge.source_namespace, edge.source_name) for edge in edges}))


def find_implied_inputs(event: Event) -> set[Name]:
    """Return the source datasets of an event's lineage that are not among its inputs."""
    bodies = [assertion.tagged_body for assertion in parse_assertions(event)]
    sources = {source for body in bodies for source in source_datasets(parse_asserted_edges(body) or ())}
    sources |= _declared_inputs(event)
    return sources - {(dataset.namespace, dataset.name) for dataset in event.inputs or ()}


def _declared_inputs(event: Event) -> set[Name]:
    """Return the datasets that the lineage facet lists as sources of the event's own job."""
    if event.job is None or not event.job.facets or LINEAGE_FACET not in event.job.facets:
        return set()
    own = event.job.namespace, event.job.name
    links = parse_links(bytes(event.job.facets[LINEAGE_FACET]), own)
    return {name for link in links if link.target == (JOB, *own) for name in filter_datasets(link.sources)}


def filter_datasets(nodes: Iterable[NodeRef]) -> list[Name]:
    """Return the names of the datasets."""
    return [_name_of(node) for node in nodes if node.type == DATASET]


def filter_jobs(nodes: Iterable[NodeRef]) -> list[Name]:
    """Return the names of the jobs."""
    return [_name_of(node) for node in nodes if node.type == JOB]


def _dataset_assertions(dataset: Dataset) -> Iterator[LineageAssertion]:
    facets = dataset.facets or {}
    # Spec: in a RunEvent the lineage facet belongs to the job; on an output it is accepted as well.
    if LINEAGE_FACET in facets:
        yield LineageAssertion(LINEAGE_FACET, dataset.namespace, dataset.name, None, bytes(facets[LINEAGE_FACET]))
    if COLUMN_LINEAGE in facets:
        body = bytes(facets[COLUMN_LINEAGE])
        yield LineageAssertion(COLUMN_LINEAGE, dataset.namespace, dataset.name, parse_dataset_version(facets), body)


def _name_of(node: NodeRef) -> Name:
    return node.namespace or "", node.name or ""


def _with_own_job(node: NodeRef, own_job: Name) -> NodeRef:
    return NodeRef(JOB, *own_job) if node.type == JOB and node.name is None else node
