"""Cells and sessions as OpenLineage runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.streams import facets
from clew.capture.streams.clock import written
from clew.capture.streams.redaction import redacted

if TYPE_CHECKING:
    from clew.capture.sessions import Execution, Session


def session_event(session: Session, kind: str, moment: float, engine: str) -> dict[str, Any]:
    """START, COMPLETE, FAIL or ABORT of a whole session."""
    own: dict[str, Any] = {
        "marimo_execution": facets.session_execution(session),
        "processing_engine": facets.engine(engine),
    }
    if kind == "FAIL":
        message = f"{session.failures} of {session.executions} cells ended in error"
        own["errorMessage"] = facets.error_message(message)
    job = {"namespace": facets.NAMESPACE, "name": session.stem, "facets": {"jobType": facets.job_type("NOTEBOOK")}}
    return _event(kind, moment, {"runId": session.run_id, "facets": own}, job, session.session_id, None, moment)


def cell_event(execution: Execution, kind: str, engine: str) -> dict[str, Any]:
    """START, COMPLETE, FAIL or ABORT of one execution of a cell."""
    session, cell = execution.session, execution.cell
    run_facets: dict[str, Any] = {
        "parent": facets.session_parent(session),
        "marimo_execution": facets.marimo_execution(execution),
        "processing_engine": facets.engine(engine),
    }
    moment = execution.started_at
    if kind != "START":
        moment += execution.duration
        overhead = sum(record.overhead for record in execution.records)
        run_facets["marimo_performance"] = facets.performance(execution.duration, overhead)
    failure = execution.failure
    if failure is not None:
        message = f"{failure.error_type}: {failure.message}"
        run_facets["errorMessage"] = facets.error_message(message, failure.traceback)
    job = {
        "namespace": facets.NAMESPACE,
        "name": f"{session.stem}/{cell.label}",
        "facets": {"jobType": facets.job_type("CELL"), "sourceCode": facets.source_code(redacted(cell.source))},
    }
    return _event(
        kind,
        moment,
        {"runId": execution.run_id, "facets": run_facets},
        job,
        session.session_id,
        execution.execution_id,
        execution.told_at,
    )


def _event(
    kind: str,
    moment: float,
    run: dict[str, Any],
    job: dict[str, Any],
    session_id: str,
    execution_id: str | None,
    told_at: float,
) -> dict[str, Any]:
    return {
        "eventType": kind,
        "eventTime": written(moment),
        "run": run,
        "job": job,
        "inputs": [],
        "outputs": [],
        "producer": facets.PRODUCER,
        "schemaURL": facets.EVENT_SCHEMA,
        "session_id": session_id,
        # A session is no execution of a cell; readers of all three streams still find the field.
        "execution_id": execution_id or session_id,
        "emitted_at": written(told_at),
    }
