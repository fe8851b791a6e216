"""Cells and sessions as OpenLineage runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.streams import facets
from clew.capture.streams.clock import format_timestamp
from clew.capture.streams.redaction import redact

if TYPE_CHECKING:
    from clew.capture.sessions import Execution, Session


def session_event(session: Session, kind: str, timestamp: float, engine: str) -> dict[str, Any]:
    """Build the START, COMPLETE, FAIL or ABORT event of a session."""
    run_facets: dict[str, Any] = {
        "marimo_execution": facets.session_execution_facet(session),
        "processing_engine": facets.processing_engine_facet(engine),
    }
    if kind == "FAIL":
        message = f"{session.failures} of {session.executions} cells ended in error"
        run_facets["errorMessage"] = facets.error_message_facet(message)
    job = {
        "namespace": facets.NAMESPACE,
        "name": session.stem,
        "facets": {"jobType": facets.job_type_facet("NOTEBOOK")},
    }
    return _openlineage_event(
        kind, timestamp, {"runId": session.run_id, "facets": run_facets}, job, session.session_id, None, timestamp
    )


def cell_event(execution: Execution, kind: str, engine: str) -> dict[str, Any]:
    """Build the START, COMPLETE, FAIL or ABORT event of a cell execution."""
    session, cell = execution.session, execution.cell
    run_facets: dict[str, Any] = {
        "parent": facets.session_parent_facet(session),
        "marimo_execution": facets.marimo_execution_facet(execution),
        "processing_engine": facets.processing_engine_facet(engine),
    }
    timestamp = execution.started_at
    if kind != "START":
        timestamp += execution.duration
        overhead = sum(record.overhead for record in execution.records)
        run_facets["marimo_performance"] = facets.performance_facet(execution.duration, overhead)
    failure = execution.failure
    if failure is not None:
        message = f"{failure.error_type}: {failure.message}"
        run_facets["errorMessage"] = facets.error_message_facet(message, failure.traceback)
    job = {
        "namespace": facets.NAMESPACE,
        "name": f"{session.stem}/{cell.label}",
        "facets": {
            "jobType": facets.job_type_facet("CELL"),
            "sourceCode": facets.source_code_facet(redact(cell.source)),
        },
    }
    return _openlineage_event(
        kind,
        timestamp,
        {"runId": execution.run_id, "facets": run_facets},
        job,
        session.session_id,
        execution.execution_id,
        execution.emitted_at,
    )


def _openlineage_event(
    kind: str,
    timestamp: float,
    run: dict[str, Any],
    job: dict[str, Any],
    session_id: str,
    execution_id: str | None,
    emitted_at: float,
) -> dict[str, Any]:
    return {
        "eventType": kind,
        "eventTime": format_timestamp(timestamp),
        "run": run,
        "job": job,
        "inputs": [],
        "outputs": [],
        "producer": facets.PRODUCER,
        "schemaURL": facets.EVENT_SCHEMA,
        "session_id": session_id,
        # A session has no execution id; the field is set because readers expect it in all three streams.
        "execution_id": execution_id or session_id,
        "emitted_at": format_timestamp(emitted_at),
    }
