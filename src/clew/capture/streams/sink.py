"""From executions to lines: names are given, records told, files flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.losses import count_loss, loss_summary, notice_once
from clew.capture.sources import SourceMap
from clew.capture.streams.files import DATAFRAME, LINEAGE, RUNTIME, StreamFiles
from clew.capture.streams.metrics import measured
from clew.capture.streams.naming import Names, starts_anew
from clew.capture.streams.operations import Operation
from clew.capture.streams.runs import cell_event, session_event
from clew.capture.streams.runtime import cell_ended, cell_started

if TYPE_CHECKING:
    from clew.capture.records import Record
    from clew.capture.sessions import Execution, Session
    from clew.capture.versions import FrameVersion


class StreamSink:
    """Writes the three streams of one session."""

    def __init__(self, files: StreamFiles) -> None:
        self._files = files
        self.sources = SourceMap()

    def execution_started(self, execution: Execution) -> None:
        """Write the start of a cell, and of the session before its first."""
        session = execution.session
        if session.executions == 0:
            self._files.write(LINEAGE, session_event(session, "START"))
        session.executions += 1
        starts_anew(execution)
        self._files.write(RUNTIME, cell_started(execution))
        self._files.write(LINEAGE, cell_event(execution, "START"))
        self._files.flush()

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """Write the operations of a cell and its end."""
        if execution.error is not None:
            execution.session.failures += 1
        self._tell_operations(execution, namespace)
        self._files.write(LINEAGE, cell_event(execution, "FAIL" if execution.error is not None else "COMPLETE"))
        self._files.write(RUNTIME, cell_ended(execution))
        self._files.flush()

    def session_ended(self, session: Session) -> None:
        """Write the end of the session, and say what was lost."""
        if session.executions:
            self._files.write(LINEAGE, session_event(session, "FAIL" if session.failures else "COMPLETE"))
        self._files.close()
        summary = loss_summary()
        if summary is not None:
            notice_once(summary)

    def _tell_operations(self, execution: Execution, namespace: dict[str, Any]) -> None:
        names = Names(execution, namespace)
        metrics = measured(execution, namespace)
        for record in execution.records:
            try:
                self._tell(execution, record, names, metrics)
            except Exception as error:  # noqa: BLE001 - one record that cannot be told must not cost the others
                count_loss(f"tell {record.method}", error)
        for record in execution.records:
            record.output = None

    def _tell(
        self, execution: Execution, record: Record, names: Names, metrics: dict[FrameVersion, dict[str, Any]]
    ) -> None:
        place = self.sources.place(record.code, record.instruction)
        for version in record.inputs():
            names.know(version)
        operation = names.operation(record)
        names.give(record, operation, place)
        told = Operation(execution, record, operation, place, metrics)
        self._files.write(LINEAGE, *told.openlineage())
        if record.error is None:
            self._files.write(DATAFRAME, told.dataframe())
