"""Watching events go by, and noting what each changes in the index: on the workers, beside the writing of files."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from clew.events.column_lineage import edges_of
from clew.events.documents import part
from clew.events.identity import content_id
from clew.events.notebook import DataFrameEvent, FrameInfo, RuntimeEvent, frame_values
from clew.events.openlineage import Dataset, Event, Facets, Job, Run, version_of
from clew.events.states import RANKS, STATES, TERMINAL_RANK, UNSAID
from clew.events.timestamps import microseconds, parse_time
from clew.index.bodies import Packer
from clew.index.changes import (
    CellRow,
    Changes,
    DatasetRow,
    EdgeRow,
    FacetRow,
    JobEdgeRow,
    JobRow,
    OperationRow,
    RunIoRow,
    RunRow,
    StatementRow,
)
from clew.index.keys import entity

T = TypeVar("T")

_CELL_STATES = {"cell_execution_error": "failed", "cell_execution_end": "completed"}


class _Identity(Struct, frozen=True, rename="camel"):
    run_id: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Ancestor(Struct, frozen=True):
    run: _Identity = _Identity()
    job: _Identity = _Identity()


class _Parent(_Ancestor, frozen=True):
    root: _Ancestor = _Ancestor()


class _JobType(Struct, rename="camel"):
    job_type: str | None = None
    integration: str | None = None


_decode_parent = msgspec.json.Decoder(_Parent).decode
_decode_job_type = msgspec.json.Decoder(_JobType).decode
_NO_PARENT = _Parent()
_NO_TYPE = _JobType()


class Observer:
    """Collects changes, merged as far as one worker sees them: its events come in the order received."""

    def __init__(self, dictionary: bytes | None = None) -> None:
        self._packer = Packer(dictionary)
        self._changes = Changes()
        self._runs: dict[str, RunRow] = {}
        self._jobs: dict[tuple[str, str], JobRow] = {}
        self._datasets: dict[tuple[str, str], DatasetRow] = {}
        self._io: dict[tuple[str, ...], RunIoRow] = {}
        self._edges: dict[tuple[str, ...], JobEdgeRow] = {}
        self._facets: dict[tuple[str, str, str], tuple[int, int, Raw]] = {}
        self._statements: dict[tuple[str, ...], StatementRow] = {}
        self._edge_sets: dict[str, list[EdgeRow]] = {}

    def note(self, event: Event | RuntimeEvent | DataFrameEvent | None, event_id: str, seq: int) -> None:
        """Take an event into account; None stands for one that was rejected."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))
        if isinstance(event, Event):
            self._note_lineage(event, seq)
        elif isinstance(event, RuntimeEvent):
            self._changes.cell_executions.append(_cell(event, seq))
        elif isinstance(event, DataFrameEvent):
            self._changes.operations.append(_operation(event, event_id, seq))

    def changes(self) -> Changes:
        """All that was noted."""
        noted = self._changes
        noted.runs, noted.jobs = list(self._runs.values()), list(self._jobs.values())
        noted.datasets, noted.run_io = list(self._datasets.values()), list(self._io.values())
        noted.job_edges = list(self._edges.values())
        pack = self._packer.pack
        noted.facets = [FacetRow(*key, seq, at, pack(bytes(facet))) for key, (seq, at, facet) in self._facets.items()]
        noted.statements = list(self._statements.values())
        noted.edge_sets = [edge for edges in self._edge_sets.values() for edge in edges]
        return noted

    def _note_lineage(self, event: Event, seq: int) -> None:
        at = microseconds(event.time)
        if event.run is not None:
            self._note_run(event.run, event, seq, at)
        if event.job is not None:
            self._note_job(event.job, event, seq, at)
        for direction, datasets in (("INPUT", event.inputs), ("OUTPUT", event.outputs)):
            for dataset in datasets or ():
                self._note_io(event, direction, dataset, seq, at)
        if event.dataset is not None:
            self._note_dataset(event, event.dataset, version_of(event.dataset.facets), seq, at)

    def _note_run(self, run: Run, event: Event, seq: int, at: int) -> None:
        row = _run(run, event, seq, at)
        known = self._runs.get(run.run_id)
        self._runs[run.run_id] = row if known is None else later_run(known, row)
        self._note_facets("run", entity(run.run_id), run.facets, seq, at)

    def _note_job(self, job: Job, event: Event, seq: int, at: int) -> None:
        key = job.namespace, job.name
        row = _job(job, event, seq, at)
        known = self._jobs.setdefault(key, row)
        if known is not row:
            known.job_type, known.integration = row.job_type or known.job_type, row.integration or known.integration
            if at >= known.last_event_at:
                known.latest_run_uuid = row.latest_run_uuid
            _see_again(known, at, seq)
        self._note_facets("job", entity(*key), job.facets, seq, at)

    def _note_io(self, event: Event, direction: str, dataset: Dataset, seq: int, at: int) -> None:
        version = version_of(dataset.facets)
        self._note_dataset(event, dataset, version, seq, at)
        job, run_uuid = event.job, None if event.run is None else event.run.run_id
        job_key: tuple[str | None, str | None] = (None, None) if job is None else (job.namespace, job.name)
        if run_uuid is not None:
            key = run_uuid, direction, dataset.namespace, dataset.name, version or ""
            self._io.setdefault(key, RunIoRow(*key, *job_key, event.session_id, seq)).last_seq = seq
        if job is not None:
            edge = job.namespace, job.name, direction, dataset.namespace, dataset.name
            known = self._edges.setdefault(edge, JobEdgeRow(*edge, run_uuid, at, seq, seq))
            _see_again(known, at, seq)
            known.last_run_uuid = run_uuid or known.last_run_uuid
        if direction == "OUTPUT" and dataset.facets and "columnLineage" in dataset.facets:
            said = run_uuid or entity(*job_key), dataset.namespace, dataset.name, version or ""
            edge_set = self._note_edges(bytes(dataset.facets["columnLineage"]))
            self._statements[said] = StatementRow(*said, seq, at, run_uuid, *job_key, event.session_id, edge_set)

    def _note_edges(self, facet: bytes) -> str:
        name = content_id(facet)
        if name not in self._edge_sets:
            edges = enumerate(edges_of(facet))
            self._edge_sets[name] = [EdgeRow(name, ordinal, *structs.astuple(edge)) for ordinal, edge in edges]
        return name

    def _note_dataset(self, event: Event, dataset: Dataset, version: str | None, seq: int, at: int) -> None:
        key = dataset.namespace, dataset.name
        _see_again(self._datasets.setdefault(key, DatasetRow(*key, at, seq, seq)), at, seq)
        self._note_facets("dataset", entity(*key, version, None), dataset.facets, seq, at)
        if dataset.input_facets or dataset.output_facets:
            of_run = entity(*key, version, None if event.run is None else event.run.run_id)
            self._note_facets("input", of_run, dataset.input_facets, seq, at)
            self._note_facets("output", of_run, dataset.output_facets, seq, at)

    def _note_facets(self, kind: str, key: str, facets: Facets | None, seq: int, at: int) -> None:
        # Spec: a facet of the same name replaces the earlier one whole: last wins, no deep merge.
        if facets:
            for name, facet in facets.items():
                self._facets[kind, key, name] = seq, at, facet


def _see_again(row: JobRow | DatasetRow | JobEdgeRow, at: int, seq: int) -> None:
    row.last_event_at = max(row.last_event_at, at)
    row.last_seq = seq


def later_run(known: RunRow, row: RunRow) -> RunRow:
    """A run that was known, after one more event of it: what MERGES says, without a database."""
    higher = max(known, row, key=lambda one: (one.state_rank, one.state_at, one.state_seq))
    return RunRow(
        run_uuid=known.run_uuid,
        job_namespace=_first(known.job_namespace, row.job_namespace),
        job_name=_first(known.job_name, row.job_name),
        state=higher.state,
        state_rank=higher.state_rank,
        state_at=higher.state_at,
        state_seq=higher.state_seq,
        started_at=min(_known(known.started_at, row.started_at), default=None),
        ended_at=higher.ended_at,
        first_event_at=min(known.first_event_at, row.first_event_at),
        last_event_at=max(known.last_event_at, row.last_event_at),
        parent_run_uuid=_first(row.parent_run_uuid, known.parent_run_uuid),
        parent_job_namespace=_first(row.parent_job_namespace, known.parent_job_namespace),
        parent_job_name=_first(row.parent_job_name, known.parent_job_name),
        root_run_uuid=_first(row.root_run_uuid, known.root_run_uuid),
        session_id=max(_known(known.session_id, row.session_id), default=None),
        execution_id=max(_known(known.execution_id, row.execution_id), default=None),
        last_seq=row.last_seq,
    )


def _known(*values: T | None) -> list[T]:
    return [value for value in values if value is not None]


def _first(*values: str | None) -> str | None:
    return next(iter(_known(*values)), None)


def _run(run: Run, event: Event, seq: int, at: int) -> RunRow:
    kind = (event.event_type or "").upper()
    rank = RANKS.get(kind, 0)
    job = event.job
    parent = _parent(run.facets)
    return RunRow(
        run_uuid=run.run_id,
        job_namespace=None if job is None else job.namespace,
        job_name=None if job is None else job.name,
        state=STATES.get(kind, UNSAID),
        state_rank=rank,
        state_at=at,
        state_seq=seq,
        started_at=at if kind == "START" else None,
        ended_at=at if rank == TERMINAL_RANK else None,
        first_event_at=at,
        last_event_at=at,
        parent_run_uuid=parent.run.run_id,
        parent_job_namespace=parent.job.namespace,
        parent_job_name=parent.job.name,
        root_run_uuid=parent.root.run.run_id,
        session_id=event.session_id,
        execution_id=event.execution_id,
        last_seq=seq,
    )


def _job(job: Job, event: Event, seq: int, at: int) -> JobRow:
    kind = _job_type(job.facets)
    return JobRow(
        namespace=job.namespace,
        name=job.name,
        job_type=kind.job_type,
        integration=kind.integration,
        latest_run_uuid=None if event.run is None else event.run.run_id,
        last_event_at=at,
        first_seq=seq,
        last_seq=seq,
    )


def _parent(facets: Facets | None) -> _Parent:
    return part((facets or {}).get("parent"), _decode_parent) or _NO_PARENT


def _job_type(facets: Facets | None) -> _JobType:
    return part((facets or {}).get("jobType"), _decode_job_type) or _NO_TYPE


def _cell(event: RuntimeEvent, seq: int) -> CellRow:
    at = microseconds(parse_time(event.timestamp))
    is_start = event.event_type == "cell_execution_start"
    state = "stopped" if event.stopped else _CELL_STATES.get(event.event_type, "running")
    error = event.error_info
    return CellRow(
        session_id=event.session_id,
        execution_id=event.execution_id,
        notebook=event.notebook,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        cell_index=event.cell_index,
        cell_source=event.cell_source,
        started_at=at if is_start else None,
        ended_at=at if event.event_type in _CELL_STATES else None,
        start_memory_mb=event.start_memory_mb,
        end_memory_mb=event.end_memory_mb,
        duration_ms=event.duration_ms,
        error_type=None if error is None else error.error_type,
        error_message=None if error is None else error.error_message,
        traceback=None if error is None else error.traceback,
        state=state,
        first_seq=seq,
        last_seq=seq,
    )


def _operation(event: DataFrameEvent, event_id: str, seq: int) -> OperationRow:
    performance = event.performance
    return OperationRow(
        session_id=event.session_id,
        # An event of an older agent names no run: it is its own.
        operation_id=event.run_id or event_id,
        run_uuid=event.run_id,
        execution_id=event.execution_id,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        notebook=event.notebook,
        operation_type=event.operation_type,
        operation_method=event.operation_method,
        operation_code=event.operation_code,
        line=event.line,
        end_line=event.end_line,
        count=event.count,
        inputs=_frames(event.input_dataframes),
        outputs=_frames(event.output_dataframes),
        event_time=microseconds(parse_time(event.timestamp)),
        overhead_ms=None if performance is None else performance.overhead_ms,
        duration_ms=None if performance is None else performance.duration_ms,
        df_size_mb=None if performance is None else performance.df_size_mb,
        last_seq=seq,
    )


def _frames(frames: list[FrameInfo] | None) -> str:
    return json.dumps([frame_values(frame) for frame in frames or ()])
