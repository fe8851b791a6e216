"""Neighbourhoods of jobs, datasets, columns and runs, with the traversal rules of Marquez."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from clew.index.catalog import EntityQueries
from clew.index.reader import Row
from clew.index.rows import RunRecord
from clew.query.catalog.model import Name
from clew.query.catalog.versions import VersionCache, VersionRecord
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.lineage import JobGraph

MAX_NEIGHBOURHOOD_NODES = 20_000


def find_neighbourhood(graph: JobGraph, start: int, depth: int) -> list[int]:
    """Find all jobs within `depth` hops from job to job in either direction, and their inputs and outputs."""
    jobs, datasets = set[int](), set[int]()
    frontier = [start] if graph.is_job(start) else []
    if not frontier:
        frontier = _jobs_at(graph, [start], datasets)
    jobs.update(frontier)
    for _ in range(depth):
        neighbours = [end for job in frontier for end in _neighbours(graph, job)]
        next_jobs = {end for end in neighbours if graph.is_job(end)}
        next_jobs.update(_jobs_at(graph, [end for end in neighbours if not graph.is_job(end)], datasets))
        frontier = sorted(next_jobs - jobs)
        if not frontier or len(jobs) + len(datasets) > MAX_NEIGHBOURHOOD_NODES:
            break
        jobs.update(frontier)
    for job in frontier:
        datasets.update(end for end in _neighbours(graph, job) if not graph.is_job(end))
    return [*sorted(jobs), *sorted(datasets)]


def _jobs_at(graph: JobGraph, pending: list[int], datasets: set[int]) -> list[int]:
    """Return the jobs that read or write datasets, following direct edges between datasets (renames, assertions)."""
    jobs: list[int] = []
    while pending:
        dataset = pending.pop()
        if dataset not in datasets:
            datasets.add(dataset)
            for end in _neighbours(graph, dataset):
                (jobs if graph.is_job(end) else pending).append(end)
    return jobs


def _neighbours(graph: JobGraph, number: int) -> Iterable[int]:
    return (*graph.backward.ends_of(number), *graph.forward.ends_of(number))


def find_column_neighbourhood(
    graph: ColumnGraph, start: Iterable[int], depth: int, *, is_downstream: bool
) -> list[int]:
    """Find the columns upstream, and downstream if `is_downstream`, nearest first."""
    columns = dict.fromkeys(start)
    for adjacency in (graph.backward, graph.forward) if is_downstream else (graph.backward,):
        frontier = list(dict.fromkeys(start))
        seen = set(frontier)
        for _ in range(depth):
            ends = {end for number in frontier for end in adjacency.ends_of(number) if not graph.is_dataset_level(end)}
            frontier = sorted(ends - seen)
            if not frontier or len(columns) > MAX_NEIGHBOURHOOD_NODES:
                break
            seen.update(frontier)
            columns.update(dict.fromkeys(frontier))
    return list(columns)


class RunInput(Struct, frozen=True):
    """An input of a run: its version, and the run that wrote that version."""

    namespace: str
    name: str
    version: str | None
    produced_by: str | None


class UpstreamRun(Struct, frozen=True):
    """A run upstream of another, and its inputs."""

    row: RunRecord
    inputs: tuple[RunInput, ...]


def find_upstream_runs(reader: EntityQueries, versions: VersionCache, run_uuid: str, depth: int) -> list[UpstreamRun]:
    """Find a run and the runs that produced its inputs, transitively, nearest first."""
    runs: dict[str, UpstreamRun] = {}
    frontier = [run_uuid]
    for _ in range(depth + 1):
        rows, io = reader.runs_of(frontier), reader.io_of(frontier)
        versions.load({_dataset(row) for io_rows in io.values() for row in io_rows})
        for uuid in frontier:
            if uuid in rows:
                runs[uuid] = UpstreamRun(rows[uuid], tuple(_inputs(rows[uuid], io.get(uuid, []), versions)))
        producers = (read.produced_by for uuid in frontier if uuid in runs for read in runs[uuid].inputs)
        frontier = list(dict.fromkeys(uuid for uuid in producers if uuid is not None and uuid not in runs))
        if not frontier or len(runs) > MAX_NEIGHBOURHOOD_NODES:
            break
    return list(runs.values())


def _inputs(run: RunRecord, io: list[Row], versions: VersionCache) -> Iterable[RunInput]:
    seen = set()
    for row in sorted(io, key=lambda row: row["dataset_version"], reverse=True):
        dataset = _dataset(row)
        if row["direction"] == "INPUT" and dataset not in seen:
            seen.add(dataset)
            version: VersionRecord | None = versions.version_read_by(run, dataset, row["dataset_version"])
            yield RunInput(
                *dataset, None if version is None else version.id, None if version is None else version.run_uuid
            )


def _dataset(io: Row) -> Name:
    return io["dataset_namespace"], io["dataset_name"]
