"""Statements of lineage: what a run, or a job or a dataset without one, said of one dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from msgspec import structs

from clew.events.explicit_lineage import FACET, JOB
from clew.events.facet_values import remembered
from clew.events.nodes import Name
from clew.events.statements import (
    TAKEN_BACK,
    Link,
    Statement,
    datasets_among,
    edge_set_of,
    jobs_among,
    links_of,
    sources_in,
    stated_edges_of,
    statements_of,
)
from clew.index.changes import EdgeRow, JobLinksRow, LineageDeclarationRow, StatementRow
from clew.index.keys import entity
from clew.index.observing.datasets import SeenDatasets, SeenReadsAndWrites
from clew.index.observing.sighting import Sighting
from clew.index.observing.turns import Turns


class _Opened(NamedTuple):
    """The edges that a statement states; None if it takes back what was stated before."""

    edge_set: str
    sources: tuple[Name, ...]
    edges: list[EdgeRow] | None


# A job says the same of its output run after run, in this batch and in the next.
@remembered
def _opened(text: bytes) -> _Opened:
    name, edges = edge_set_of(text), stated_edges_of(text)
    if edges is None:
        return _Opened(name, (), None)
    rows = [EdgeRow(name, place, *structs.astuple(edge)) for place, edge in enumerate(edges)]
    return _Opened(name, sources_in(edges), rows)


class SeenStatements:
    """The last statement of each author on each dataset, the sets of edges that they name, and what they imply."""

    def __init__(self, datasets: SeenDatasets, io: SeenReadsAndWrites, turns: Turns) -> None:
        self._turns = turns
        self._datasets = datasets
        self._io = io
        self._statements: dict[tuple[str, ...], StatementRow] = {}
        self._links: dict[tuple[str, ...], JobLinksRow] = {}
        self._declarations: dict[str, LineageDeclarationRow] = {}
        self._edge_sets: dict[str, list[EdgeRow]] = {}

    def note(self, sighting: Sighting) -> None:
        """Take an event that may bear facets of lineage."""
        statements = statements_of(sighting.event)
        if statements:
            self._note_statements(statements, sighting)
        job = sighting.event.job
        if job is not None and job.facets and FACET in job.facets:
            self._note_explicit(bytes(job.facets[FACET]), (job.namespace, job.name), sighting)

    def _note_statements(self, statements: Iterable[Statement], sighting: Sighting) -> None:
        inputs = {(dataset.namespace, dataset.name) for dataset in sighting.event.inputs or ()}
        for statement in statements:
            said = _opened(statement.text)
            if said.edges is not None:
                self._edge_sets[said.edge_set] = said.edges
            self._note_statement(statement, TAKEN_BACK if said.edges is None else said.edge_set, sighting)
            for source in said.sources:
                if source not in inputs:
                    self._imply(source, sighting)

    def _note_statement(self, said: Statement, edge_set: str, sighting: Sighting) -> None:
        key = _author(sighting), said.dataset_namespace, said.dataset_name, said.dataset_version or "", said.origin
        session_id = sighting.event.session_id
        if self._is_last(self._statements.get(key), sighting):
            self._statements[key] = StatementRow(
                *key, sighting.seq, sighting.at, sighting.run_uuid, *sighting.job, session_id, edge_set
            )
        self._datasets.note(said.dataset_namespace, said.dataset_name, sighting)

    def _is_last(self, known: StatementRow | JobLinksRow | LineageDeclarationRow | None, sighting: Sighting) -> bool:
        return known is None or self._turns.is_last(sighting, known.seq)

    def _imply(self, source: Name, sighting: Sighting) -> None:
        """Note an input that only lineage names."""
        self._datasets.note(*source, sighting)
        if sighting.event.kind != "DATASET":
            self._io.note_implied(source, sighting)

    def _note_explicit(self, facet: bytes, own_job: Name, sighting: Sighting) -> None:
        author = _author(sighting)
        if sighting.run_uuid is None and self._is_last(self._declarations.get(author), sighting):
            self._declarations[author] = LineageDeclarationRow(author, sighting.seq)
        for link in links_of(facet, own_job):
            if link.target.type == JOB:
                self._note_fed_job(author, link, own_job, sighting)
            else:
                for job in jobs_among(link.sources):
                    self._io.note_job(job, "OUTPUT", link.name, sighting)

    def _note_fed_job(self, author: str, link: Link, own_job: Name, sighting: Sighting) -> None:
        key = author, *link.name
        upstream = json.dumps(jobs_among(link.sources))
        if self._is_last(self._links.get(key), sighting):
            self._links[key] = JobLinksRow(*key, sighting.seq, sighting.at, sighting.run_uuid, upstream)
        inputs = {(dataset.namespace, dataset.name) for dataset in sighting.event.inputs or ()}
        for source in datasets_among(link.sources):
            self._datasets.note(*source, sighting)
            self._io.note_job(link.name, "INPUT", source, sighting)
            if link.name == own_job and source not in inputs:
                self._imply(source, sighting)

    def statements(self) -> Iterable[StatementRow]:
        """All statements that count."""
        return self._statements.values()

    def edges(self) -> Iterable[EdgeRow]:
        """The edges of all sets."""
        return chain.from_iterable(self._edge_sets.values())

    def links(self) -> Iterable[JobLinksRow]:
        """Which jobs were said to feed jobs."""
        return self._links.values()

    def declarations(self) -> Iterable[LineageDeclarationRow]:
        """Which authors declare all their explicit lineage at once."""
        return self._declarations.values()


def _author(sighting: Sighting) -> str:
    """Who makes the event's statements."""
    event = sighting.event
    if sighting.run_uuid is not None or event.dataset is None or event.kind != "DATASET":
        return sighting.run_uuid or entity(*sighting.job)
    # One part more than a job has, so that a job and a dataset of one name are two authors.
    return entity(event.dataset.namespace, event.dataset.name, None)
