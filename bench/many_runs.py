"""An index of many runs, written from rows instead of events, in a minute instead of an hour."""

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

JOB_COUNT = 20_000
COLUMNS = ("id", "amount", "price", "status", "opened_at")
# A job reads the outputs of the two previous jobs of its group, so a traversal visits the whole group.
GROUP_SIZE = 50
SESSION_COUNT = 500
CELLS_PER_SESSION = 12
_RUNS_PER_BATCH = 50_000
_FAILURE_INTERVAL = 97
# Microseconds since 1970.
_START = 1_767_225_600_000_000
_DATA_NS, _JOB_NS = "postgres://warehouse:5432", "nightly"
_SCHEMA = "[" + ",".join(f'{{"name":"{name}","type":"bigint"}}' for name in COLUMNS) + "]"


def table_name(number: int) -> str:
    """Name of a dataset."""
    return f"area_{number // GROUP_SIZE}/orders_{number}.parquet"


def job_name(number: int) -> str:
    """Name of a job."""
    return f"load_orders_{number}"


def run_id(number: int) -> str:
    """Id of a run."""
    return f"0195486f-8a00-7000-8000-{number:012x}"


def session_id(number: int) -> str:
    """Id of a notebook session."""
    return f"{number + 0xA0000000:08x}"


def write_index(path: Path, runs: int) -> None:
    """Write the index: jobs run in turn, and each reads two datasets and writes one."""
    with build_and_swap(path) as writer:
        writer.apply("bench/0", _jobs_and_datasets(runs))
        for batch, start in enumerate(range(0, runs, _RUNS_PER_BATCH), start=1):
            writer.apply(f"bench/{batch}", _runs(range(start, min(start + _RUNS_PER_BATCH, runs))))
        writer.apply("bench/sessions", _sessions(runs))


def add_batch(path: Path, first: int, count: int = 1_000) -> None:
    """Add a batch to the index: a number of runs, and a new job that reads from the first group."""
    changes = _runs(range(first, first + count))
    last, time, new_job = first + count, _START + first * 1_000_000, JOB_COUNT + first
    for job_number in {number % JOB_COUNT for number in range(first, first + count)}:
        changes.jobs.append(
            JobRow(_JOB_NS, job_name(job_number), _START, time, 1, last, run_id(first), time, last, job_type="BATCH")
        )
        changes.datasets.append(DatasetRow(_DATA_NS, table_name(job_number), _START, time, 1, last, time, last))
    changes.jobs.append(
        JobRow(_JOB_NS, job_name(new_job), time, time, last, last, run_id(first), time, last, job_type="BATCH")
    )
    changes.datasets.append(DatasetRow(_DATA_NS, table_name(new_job), time, time, last, last, time, last))
    changes.reported_job_edges += [_job_edge(new_job, "INPUT", 5, last), _job_edge(new_job, "OUTPUT", new_job, last)]
    changes.edge_sets += [
        EdgeRow(f"set {new_job}", 0, "amount", _DATA_NS, table_name(5), "amount", "DIRECT", "IDENTITY", None, None)
    ]
    assertion = (
        _DATA_NS,
        table_name(new_job),
        "",
        "columnLineage",
        last,
        time,
        run_id(first),
        _JOB_NS,
        job_name(new_job),
        None,
    )
    changes.lineage_assertions.append(AssertionRow(run_id(first), *assertion, f"set {new_job}"))
    with IndexWriter(path) as writer:
        writer.apply(f"bench/after {first}", changes)


def _source_numbers(number: int) -> list[int]:
    return [
        previous
        for previous in (number - 1, number - 2)
        if previous // GROUP_SIZE == number // GROUP_SIZE and previous >= 0
    ]


def _jobs_and_datasets(runs: int) -> ChangeSet:
    changes = ChangeSet(schemas=[SchemaRow("schema", _SCHEMA)])
    encoder = FacetEncoder()
    facet = StoredFacet.of("schema", 1, _START, b'{"fields":' + _SCHEMA.encode() + b"}")
    body = encoder.encode([facet])
    for number in range(JOB_COUNT):
        last = number + (runs - 1 - number) // JOB_COUNT * JOB_COUNT if number < runs else number
        time = _START + last * 1_000_000
        changes.jobs.append(
            JobRow(_JOB_NS, job_name(number), _START, time, 1, last, run_id(last), time, last, job_type="BATCH")
        )
        changes.datasets.append(DatasetRow(_DATA_NS, table_name(number), _START, time, 1, last, time, last))
        changes.facets.append(FacetsRow("dataset", entity_key(_DATA_NS, table_name(number), None, None), last, body))
        changes.facets.append(FacetsRow("job", entity_key(_JOB_NS, job_name(number)), last, body))
        changes.reported_job_edges.append(_job_edge(number, "OUTPUT", number, last))
        changes.reported_job_edges += [_job_edge(number, "INPUT", source, last) for source in _source_numbers(number)]
        changes.edge_sets += _column_edges(number)
        changes.lineage_assertions.append(
            AssertionRow(
                run_id(last), _DATA_NS, table_name(number), "", "columnLineage", last, time, run_id(last), _JOB_NS,
                job_name(number), None, f"set {number}",
            )
        )  # fmt: skip
    return changes


def _job_edge(number: int, direction: str, dataset: int, last: int) -> JobEdgeRow:
    time = _START + last * 1_000_000
    return JobEdgeRow(
        _JOB_NS, job_name(number), direction, _DATA_NS, table_name(dataset), run_id(last), _START, time, 1, last
    )


def _column_edges(number: int) -> list[EdgeRow]:
    pairs = [(source, column) for source in _source_numbers(number) for column in COLUMNS]
    return [
        EdgeRow(
            f"set {number}", position, column, _DATA_NS, table_name(source), column, "DIRECT", "IDENTITY", None, None
        )
        for position, (source, column) in enumerate(pairs)
    ]


def _runs(numbers: range) -> ChangeSet:
    changes = ChangeSet()
    for number in numbers:
        job_number, time = number % JOB_COUNT, _START + number * 1_000_000
        end, error = time + (number % 3_600) * 1_000_000, None if number % _FAILURE_INTERVAL else "disk full"
        state = "COMPLETED" if error is None else "FAILED"
        names = _JOB_NS, job_name(job_number), number
        changes.events.append((number, f"{number:032x}"))
        changes.runs.append(
            RunRow(
                run_id(number),
                *names,
                state,
                3,
                end,
                number,
                time,
                end,
                time,
                end,
                None,
                None,
                number,
                error_message=error,
            )
        )
        changes.run_io.append(_run_io(number, job_number, "OUTPUT", job_number))
        changes.run_io += [_run_io(number, job_number, "INPUT", source) for source in _source_numbers(job_number)]
    return changes


def _run_io(number: int, job_number: int, direction: str, dataset: int) -> RunIoRow:
    rows = 1000 + number % 7
    dataset_and_job = _DATA_NS, table_name(dataset), "", _JOB_NS, job_name(job_number), None
    row = RunIoRow(run_id(number), direction, *dataset_and_job, number, number, _START + number * 1_000_000)
    row.schema_id, row.schema_seq, row.row_count, row.row_count_seq = "schema", number, rows, number
    return row


def _sessions(runs: int) -> ChangeSet:
    changes = ChangeSet()
    changes.jobs.append(JobRow("marimo", "orders", _START, _START, runs, runs, job_type="NOTEBOOK"))
    for number in range(SESSION_COUNT):
        time, seq, session = _START + number * 60_000_000, runs + number, session_id(number)
        end = time + CELLS_PER_SESSION * 1_000_000
        run = run_id(runs + number)
        changes.runs.append(
            RunRow(run, "marimo", "orders", seq, "COMPLETED", 3, end, seq, time, end, time, end, session, None, seq)
        )
        changes.cell_executions += [
            CellRow(
                session, f"{number:04x}{cell:04x}", "orders.py", f"c{cell}", f"step_{cell}", cell, f"step_{cell}()",
                time + cell * 1_000_000, time + cell * 1_000_000 + 500_000, 100.0, 110.0, 500.0, None, None, None,
                "completed", seq, seq, 1,
            )
            for cell in range(CELLS_PER_SESSION)
        ]  # fmt: skip
    return changes
