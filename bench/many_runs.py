"""An index of many runs, from rows rather than events: what answers are read from, in a minute rather than an hour."""

from __future__ import annotations

from pathlib import Path

from clew.index.changes import (
    AssertionRow,
    CellRow,
    ChangeSet,
    DatasetRow,
    EdgeRow,
    FacetsRow,
    JobEdgeRow,
    JobRow,
    RunIoRow,
    RunRow,
    SchemaRow,
)
from clew.index.encoding import FacetEncoder, StoredFacet, entity_key
from clew.index.writer import IndexWriter, build_and_swap

JOBS = 20_000
COLUMNS = ("id", "amount", "price", "status", "opened_at")
# A job reads the outputs of the two jobs before it in its group, so a walk goes through a whole group.
GROUP = 50
SESSIONS = 500
CELLS = 12
_BATCH = 50_000
_FAILED_EVERY = 97
_START = 1_767_225_600_000_000
_STORE, _JOBS = "postgres://warehouse:5432", "nightly"
_SCHEMA = "[" + ",".join(f'{{"name":"{name}","type":"bigint"}}' for name in COLUMNS) + "]"


def table(number: int) -> str:
    """The name of a dataset."""
    return f"area_{number // GROUP}/orders_{number}.parquet"


def job(number: int) -> str:
    """The name of a job."""
    return f"load_orders_{number}"


def run_id(number: int) -> str:
    """The id of a run."""
    return f"0195486f-8a00-7000-8000-{number:012x}"


def session_id(number: int) -> str:
    """The id of a notebook's session."""
    return f"{number + 0xA0000000:08x}"


def write_index(path: Path, runs: int) -> None:
    """Make the index: every job runs in turn, reads two datasets and writes one."""
    with build_and_swap(path) as sink:
        sink.apply("bench/0", _jobs_and_datasets(runs))
        for batch, start in enumerate(range(0, runs, _BATCH), start=1):
            sink.apply(f"bench/{batch}", _runs(range(start, min(start + _BATCH, runs))))
        sink.apply("bench/sessions", _sessions(runs))


def add_batch(path: Path, first: int, count: int = 1_000) -> None:
    """Change the index: so many runs from a number on, and a job that is new and feeds on the first group."""
    changes = _runs(range(first, first + count))
    last, at, fresh = first + count, _START + first * 1_000_000, JOBS + first
    for own in {number % JOBS for number in range(first, first + count)}:
        changes.jobs.append(JobRow(_JOBS, job(own), _START, at, 1, last, run_id(first), at, last, job_type="BATCH"))
        changes.datasets.append(DatasetRow(_STORE, table(own), _START, at, 1, last, at, last))
    changes.jobs.append(JobRow(_JOBS, job(fresh), at, at, last, last, run_id(first), at, last, job_type="BATCH"))
    changes.datasets.append(DatasetRow(_STORE, table(fresh), at, at, last, last, at, last))
    changes.reported_job_edges += [_edge(fresh, "INPUT", 5, last), _edge(fresh, "OUTPUT", fresh, last)]
    changes.edge_sets += [
        EdgeRow(f"set {fresh}", 0, "amount", _STORE, table(5), "amount", "DIRECT", "IDENTITY", None, None)
    ]
    named = _STORE, table(fresh), "", "columnLineage", last, at, run_id(first), _JOBS, job(fresh), None
    changes.lineage_assertions.append(AssertionRow(run_id(first), *named, f"set {fresh}"))
    with IndexWriter(path) as sink:
        sink.apply(f"bench/after {first}", changes)


def _sources(number: int) -> list[int]:
    return [before for before in (number - 1, number - 2) if before // GROUP == number // GROUP and before >= 0]


def _jobs_and_datasets(runs: int) -> ChangeSet:
    changes = ChangeSet(schemas=[SchemaRow("schema", _SCHEMA)])
    packer = FacetEncoder()
    facet = StoredFacet.of("schema", 1, _START, b'{"fields":' + _SCHEMA.encode() + b"}")
    body = packer.encode([facet])
    for number in range(JOBS):
        last = number + (runs - 1 - number) // JOBS * JOBS if number < runs else number
        at = _START + last * 1_000_000
        changes.jobs.append(JobRow(_JOBS, job(number), _START, at, 1, last, run_id(last), at, last, job_type="BATCH"))
        changes.datasets.append(DatasetRow(_STORE, table(number), _START, at, 1, last, at, last))
        changes.facets.append(FacetsRow("dataset", entity_key(_STORE, table(number), None, None), last, body))
        changes.facets.append(FacetsRow("job", entity_key(_JOBS, job(number)), last, body))
        changes.reported_job_edges.append(_edge(number, "OUTPUT", number, last))
        changes.reported_job_edges += [_edge(number, "INPUT", source, last) for source in _sources(number)]
        changes.edge_sets += _column_edges(number)
        changes.lineage_assertions.append(
            AssertionRow(
                run_id(last), _STORE, table(number), "", "columnLineage", last, at, run_id(last), _JOBS, job(number),
                None, f"set {number}",
            )
        )  # fmt: skip
    return changes


def _edge(number: int, direction: str, dataset: int, last: int) -> JobEdgeRow:
    at = _START + last * 1_000_000
    return JobEdgeRow(_JOBS, job(number), direction, _STORE, table(dataset), run_id(last), _START, at, 1, last)


def _column_edges(number: int) -> list[EdgeRow]:
    pairs = [(source, column) for source in _sources(number) for column in COLUMNS]
    return [
        EdgeRow(f"set {number}", place, column, _STORE, table(source), column, "DIRECT", "IDENTITY", None, None)
        for place, (source, column) in enumerate(pairs)
    ]


def _runs(numbers: range) -> ChangeSet:
    changes = ChangeSet()
    for number in numbers:
        own, at = number % JOBS, _START + number * 1_000_000
        end, error = at + (number % 3_600) * 1_000_000, None if number % _FAILED_EVERY else "disk full"
        state = "COMPLETED" if error is None else "FAILED"
        names = _JOBS, job(own), number
        changes.events.append((number, f"event {number}"))
        changes.runs.append(
            RunRow(
                run_id(number), *names, state, 3, end, number, at, end, at, end, None, None, number, error_message=error
            )
        )
        changes.run_io.append(_io(number, own, "OUTPUT", own))
        changes.run_io += [_io(number, own, "INPUT", source) for source in _sources(own)]
    return changes


def _io(number: int, own: int, direction: str, dataset: int) -> RunIoRow:
    rows = 1000 + number % 7
    named = _STORE, table(dataset), "", _JOBS, job(own), None
    return RunIoRow(run_id(number), direction, *named, number, "schema", number, rows, number)


def _sessions(runs: int) -> ChangeSet:
    changes = ChangeSet()
    changes.jobs.append(JobRow("marimo", "orders", _START, _START, runs, runs, job_type="NOTEBOOK"))
    for number in range(SESSIONS):
        at, seq, session = _START + number * 60_000_000, runs + number, session_id(number)
        end = at + CELLS * 1_000_000
        run = run_id(runs + number)
        changes.runs.append(
            RunRow(run, "marimo", "orders", seq, "COMPLETED", 3, end, seq, at, end, at, end, session, None, seq)
        )
        changes.cell_executions += [
            CellRow(
                session, f"{number:04x}{cell:04x}", "orders.py", f"c{cell}", f"step_{cell}", cell, f"step_{cell}()",
                at + cell * 1_000_000, at + cell * 1_000_000 + 500_000, 100.0, 110.0, 500.0, None, None, None,
                "completed", seq, seq,
            )
            for cell in range(CELLS)
        ]  # fmt: skip
    return changes
