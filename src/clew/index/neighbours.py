"""The edges of one job, dataset or column, for a walk that asks the index step by step."""

from __future__ import annotations

from typing import NamedTuple

from clew.index.reader import NAMES, IndexReader
from clew.index.said import LAST_STATEMENTS, Said

# A dataset at the other end, by the name of its node.
_NODE = "coalesce(node_namespace, {end}_namespace), coalesce(node_name, {end}_name)"
_TO_NODE = "left join nodes on nodes.namespace = {end}_namespace and nodes.name = {end}_name"


def _ended(query: str, end: str) -> str:
    return query.format(node=_NODE.format(end=end), to_node=_TO_NODE.format(end=end))


_OF_JOB = _ended(
    """select direction = 'INPUT', {node}, first_event_at from job_edges {to_node}
where job_namespace = ?1 and job_name = ?2""",
    "dataset",
)
_OF_DATASET = f"""{NAMES} select direction = 'INPUT', job_namespace, job_name, first_event_at from names
join job_edges on dataset_namespace = names.namespace and dataset_name = names.name"""  # noqa: S608
_DECLARED_FROM = _ended(
    f"""{NAMES} select distinct {{node}}, event_time from names
join statements on dataset_namespace = names.namespace and dataset_name = names.name
join edge_sets using (edge_set) {{to_node}} where job_name is null""",  # noqa: S608
    "source",
)
_DECLARED_FOR = _ended(
    f"""{NAMES} select distinct {{node}}, event_time from names
join edge_sets on source_namespace = names.namespace and source_name = names.name
join statements using (edge_set) {{to_node}} where job_name is null""",  # noqa: S608
    "dataset",
)
_NAMES_OF = f"{NAMES} select * from names"  # noqa: S608
_FED = """select distinct dataset_namespace, dataset_name from edge_sets join statements using (edge_set)
where source_namespace = ?1 and source_name = ?2"""
_SAID_OF = LAST_STATEMENTS.format(of="dataset_namespace = ?2 and dataset_name = ?3")

_Name = tuple[str, str]


class Beside(NamedTuple):
    """What stands beside a job or a dataset, and since when; `is_input` if it is read rather than written."""

    is_input: bool
    name: _Name
    since: int


class Neighbours:
    """An index, asked about one thing after the other; `frames` is the namespace of datasets in memory."""

    def __init__(self, index: IndexReader, frames: str) -> None:
        self._index, self._frames = index, frames

    def datasets_of(self, job: _Name) -> list[Beside]:
        """What a job reads and writes, by the names of nodes."""
        return [Beside(bool(row[0]), (row[1], row[2]), row[3]) for row in self._index.ask(_OF_JOB, *job)]

    def jobs_of(self, dataset: _Name) -> list[Beside]:
        """Who reads and writes a dataset, by whichever of its names."""
        return [Beside(bool(row[0]), (row[1], row[2]), row[3]) for row in self._index.ask(_OF_DATASET, *dataset)]

    def declared(self, dataset: _Name, *, is_forward: bool) -> list[tuple[_Name, int]]:
        """The datasets that feed a dataset, or are fed by it, as is said without a job; and since when."""
        query = _DECLARED_FOR if is_forward else _DECLARED_FROM
        return [((row[0], row[1]), row[2]) for row in self._index.ask(query, *dataset)]

    def names_of(self, dataset: _Name) -> list[_Name]:
        """All names of a dataset."""
        return [(row[0], row[1]) for row in self._index.ask(_NAMES_OF, *dataset)]

    def fed_by(self, dataset: _Name) -> list[_Name]:
        """The datasets of which someone has said that columns of this one, by this name, went into them."""
        return [(row[0], row[1]) for row in self._index.ask(_FED, *dataset)]

    def said_of(self, dataset: _Name) -> list[Said]:
        """What each job has said last of a dataset by this name."""
        return [Said._make(row) for row in self._index.ask(_SAID_OF, self._frames, *dataset)]
