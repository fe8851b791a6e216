"""What is around a job, a dataset, a column or a run, as Marquez walks: as far as so many hops lead."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from clew.index.catalog import CatalogReader
from clew.index.reader import Row
from clew.index.rows import RunRow
from clew.query.catalog.model import Name
from clew.query.catalog.versions import Version, Versions
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.lineage import LineageGraph

MOST_NODES = 20_000


def around(graph: LineageGraph, start: int, depth: int) -> list[int]:
    """All jobs within so many hops from one to another, whichever way the data flows, and what they read and write."""
    jobs, datasets = set[int](), set[int]()
    frontier = [start] if graph.is_job(start) else []
    if not frontier:
        frontier = _jobs_at(graph, [start], datasets)
    jobs.update(frontier)
    for _ in range(depth):
        touched = [end for job in frontier for end in _neighbours(graph, job)]
        beyond = {end for end in touched if graph.is_job(end)}
        beyond.update(_jobs_at(graph, [end for end in touched if not graph.is_job(end)], datasets))
        frontier = sorted(beyond - jobs)
        if not frontier or len(jobs) + len(datasets) > MOST_NODES:
            break
        jobs.update(frontier)
    for job in frontier:
        datasets.update(end for end in _neighbours(graph, job) if not graph.is_job(end))
    return [*sorted(jobs), *sorted(datasets)]


def _jobs_at(graph: LineageGraph, found: list[int], datasets: set[int]) -> list[int]:
    """The jobs that read or write datasets; a dataset may lead straight to another, by a new name or a declaration."""
    jobs: list[int] = []
    pending = found
    while pending:
        dataset = pending.pop()
        if dataset not in datasets:
            datasets.add(dataset)
            for end in _neighbours(graph, dataset):
                (jobs if graph.is_job(end) else pending).append(end)
    return jobs


def _neighbours(graph: LineageGraph, number: int) -> Iterable[int]:
    return (*graph.backward.ends_of(number), *graph.forward.ends_of(number))


def columns_around(graph: ColumnGraph, start: Iterable[int], depth: int, *, is_downstream: bool) -> list[int]:
    """The columns that others came from, and those that came from them if asked for, the nearest first."""
    found = dict.fromkeys(start)
    for side in (graph.backward, graph.forward) if is_downstream else (graph.backward,):
        frontier = list(dict.fromkeys(start))
        seen = set(frontier)
        for _ in range(depth):
            ends = {end for number in frontier for end in side.ends_of(number) if not graph.is_whole(end)}
            frontier = sorted(ends - seen)
            if not frontier or len(found) > MOST_NODES:
                break
            seen.update(frontier)
            found.update(dict.fromkeys(frontier))
    return list(found)


class RunInput(Struct, frozen=True):
    """What a run read, in which version, and the run that had made that."""

    namespace: str
    name: str
    version: str | None
    produced_by: str | None


class UpstreamRun(Struct, frozen=True):
    """A run on the way to another, and what it read."""

    row: RunRow
    inputs: tuple[RunInput, ...]


def runs_upstream(reader: CatalogReader, versions: Versions, run_uuid: str, depth: int) -> list[UpstreamRun]:
    """A run, those that made what it read, those that made what these read, and so on, the nearest first."""
    found: dict[str, UpstreamRun] = {}
    frontier = [run_uuid]
    for _ in range(depth + 1):
        rows, io = reader.runs_of(frontier), reader.io_of(frontier)
        versions.load({_dataset(one) for used in io.values() for one in used})
        for name in frontier:
            if name in rows:
                found[name] = UpstreamRun(rows[name], tuple(_inputs(rows[name], io.get(name, []), versions)))
        made_by = (one.produced_by for name in frontier if name in found for one in found[name].inputs)
        frontier = list(dict.fromkeys(one for one in made_by if one is not None and one not in found))
        if not frontier or len(found) > MOST_NODES:
            break
    return list(found.values())


def _inputs(run: RunRow, io: list[Row], versions: Versions) -> Iterable[RunInput]:
    seen = set()
    for one in sorted(io, key=lambda one: one["dataset_version"], reverse=True):
        dataset = _dataset(one)
        if one["direction"] == "INPUT" and dataset not in seen:
            seen.add(dataset)
            version: Version | None = versions.read_by(run, dataset, one["dataset_version"])
            yield RunInput(
                *dataset, None if version is None else version.id, None if version is None else version.run_uuid
            )


def _dataset(io: Row) -> Name:
    return io["dataset_namespace"], io["dataset_name"]
