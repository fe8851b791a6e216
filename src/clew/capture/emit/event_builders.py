"""Builders of OpenLineage, runtime and DataFrame events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from clew.capture.emit import facets
from clew.capture.emit.files import encode_raw
from clew.capture.emit.redaction import redact, redact_query
from clew.capture.environments.session import Session
from clew.capture.lineage.transformations import DIRECT, INFERRED, OPAQUE, transformations

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.environments.session import Execution
    from clew.capture.introspection.source_map import SourceLocation
    from clew.capture.lineage.frame_version import FrameVersion
    from clew.capture.lineage.operations import OperationRecord
    from clew.capture.lineage.provenance import Provenance


def format_timestamp(timestamp: float) -> str:
    """Format a timestamp as RFC 3339 in UTC with microseconds."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="microseconds")


_MEGABYTE = 1024 * 1024


@dataclass
class OperationEvents:
    """Builds the events of a record after its versions were named."""

    execution: Execution
    record: OperationRecord
    name: str
    location: SourceLocation
    metrics: dict[FrameVersion, dict[str, Any]]
    run_id: str
    engine: tuple[str, str]
    # Names of frames in the code, by uid, where they differ from those of the datasets.
    aliases: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The method for code without a source, such as that of `exec`.
        self.code = redact(self.location.text) or self.record.method
        self.inputs = self.record.inputs()
        output = self.record.output
        self.fields = self.record.fields_of(output) if output is not None else {}
        self.started = format_timestamp(self.execution.wall_time(self.record.started))
        self.ended = format_timestamp(self.execution.wall_time(self.record.started + self.record.duration))

    def openlineage_event(self, kind: str) -> dict[str, Any]:
        """Build the START, COMPLETE, FAIL or ABORT event of the run."""
        outputs = [self._output(self.record.output)] if kind == "COMPLETE" and self.record.output is not None else []
        run = {"runId": self.run_id, "facets": self._run_facets(kind)}
        moment = self.started if kind == "START" else self.ended
        inputs = self._inputs if kind == "START" else self._measured_inputs
        return _openlineage_event(kind, moment, run, self._job, self.execution, inputs, outputs)

    @cached_property
    def _job(self) -> msgspec.Raw:
        name = f"{self.execution.session.stem}/{self.execution.cell.label}/{self.name}"
        own = {"jobType": facets.job_type_facet("OPERATION"), "sourceCode": facets.source_code_facet(self.code)}
        if self.record.sql is not None:
            own["sql"] = facets.sql_facet([redact_query(self.record.sql, self.execution.cell.source)])
        return encode_raw({"namespace": facets.NAMESPACE, "name": name, "facets": own})

    @cached_property
    def _inputs(self) -> msgspec.Raw:
        return encode_raw([{**self._identity(item), "facets": self._dataset_facets(item)} for item in self.inputs])

    @cached_property
    def _measured_inputs(self) -> msgspec.Raw:
        return encode_raw([self._input(version) for version in self.inputs])

    @cached_property
    def _common_run_facets(self) -> dict[str, Any]:
        return {
            "parent": facets.cell_parent_facet(self.execution),
            "processing_engine": facets.processing_engine_facet(*self.engine),
            "marimo_execution": encode_raw(facets.marimo_execution_facet(self.execution, self.location, self.code)),
        }

    def _run_facets(self, kind: str) -> dict[str, Any]:
        run_facets = dict(self._common_run_facets)
        if kind != "START":
            run_facets["marimo_performance"] = facets.performance_facet(self.record.duration, self.record.overhead)
        if self.record.error is not None and kind == "FAIL":
            error_type, message = self.record.error
            run_facets["errorMessage"] = facets.error_message_facet(redact(f"{error_type}: {message}"))
        return run_facets

    def _identity(self, version: FrameVersion) -> dict[str, str]:
        return facets.dataset_id(version, self.execution.session.stem)

    def _dataset_facets(self, version: FrameVersion) -> dict[str, Any]:
        if version.dataset is not None:
            types = self.record.written_types or self._types_read(version)
            return {
                "schema": facets.schema_facet(_described_version(version, self.record), types, self._descriptions),
                "dataSource": facets.data_source_facet(version),
            }
        if version.encoded_facets is None:
            version.encoded_facets = {
                "schema": encode_raw(facets.schema_facet(version, version.types(), version.descriptions)),
                "dataSource": encode_raw(facets.data_source_facet(version)),
                "version": encode_raw(facets.dataset_version_facet(version.number)),
                "datasetType": facets.dataset_type_facet(),
            }
        return dict(version.encoded_facets)

    @property
    def _descriptions(self) -> dict[str, str] | None:
        """Descriptions of the columns of a file: those of the frame that was read or written."""
        frames = (self.record.output, *self.record.parents)
        return next((frame.descriptions for frame in frames if frame is not None and frame.descriptions), None)

    def _types_read(self, version: FrameVersion) -> dict[Hashable, str]:
        output = self.record.output
        return output.types() if output is not None and version is self.record.read_from else {}

    def _input(self, version: FrameVersion) -> dict[str, Any]:
        input_facets: dict[str, Any] = {}
        # A file is described by the frame that was read from it.
        described = self.record.output if version is self.record.read_from and self.record.output else version
        if described is not version and described.shape is not None:
            input_facets["inputStatistics"] = facets.input_statistics_facet(described.shape[0])
        metrics = self.metrics.get(described) or self.metrics.get(version)
        if metrics is None and described is version and version.dataset is None and version.shape is not None:
            # A frame that no variable holds.
            metrics = {"rowCount": version.shape[0], "columnMetrics": {}}
        if metrics:
            input_facets["dataQualityMetrics"] = facets.quality_metrics_facet(metrics, is_input=True)
        own = {"facets": self._dataset_facets(version), **({"inputFacets": input_facets} if input_facets else {})}
        return {**self._identity(version), **own}

    def _output(self, version: FrameVersion) -> dict[str, Any]:
        dataset_facets = self._dataset_facets(version)
        dataset_facets["columnLineage"] = facets.column_lineage_facet(self.fields, self.record.rows, self._identity)
        metrics = self.metrics.get(version) or (
            self.metrics.get(self.record.parents[0]) if version.dataset and self.record.parents else None
        )
        if metrics:
            dataset_facets["dataQualityMetrics"] = facets.quality_metrics_facet(metrics)
        dataset = {**self._identity(version), "facets": dataset_facets}
        if version.dataset is not None and version.shape is not None:
            statistics = facets.output_statistics_facet(version.shape[0], version.file_bytes)
            dataset["outputFacets"] = {"outputStatistics": statistics}
        return dataset

    def dataframe_event(self) -> dict[str, Any]:
        """Build the DataFrame lineage event."""
        execution, record, output = self.execution, self.record, self.record.output
        size = (output.size() or 0) / _MEGABYTE if output is not None else 0.0
        return {
            "event_type": "dataframe_lineage",
            "execution_id": execution.execution_id,
            "cell_id": execution.cell.id,
            "cell_name": execution.cell.name,
            "session_id": execution.session.session_id,
            "notebook": execution.session.notebook,
            "run_id": self.run_id,
            "timestamp": self.ended,
            "emitted_at": format_timestamp(execution.emitted_at),
            "operation_type": record.kind,
            # The last of a chain: `sum` of `groupby.sum`.
            "operation_method": record.method.rpartition(".")[2],
            "operation_code": self.code,
            "line": self.location.line,
            "end_line": self.location.end_line,
            "count": record.count,
            "operation_parameters": self._parameters(),
            "input_dataframes": [self._dataframe_json(version) for version in self.inputs],
            "output_dataframes": [self._dataframe_json(output)] if output is not None else [],
            "column_lineage": self._column_mapping(),
            "column_lineage_edges": self._edges(),
            "performance": {
                "overhead_ms": round(record.overhead * 1000, 4),
                "duration_ms": round(record.duration * 1000, 3),
                "df_size_mb": round(size, 6),
                "sampled": bool(self.metrics.get(output, {}).get("sampled")) if output is not None else False,
            },
        }

    def _parameters(self) -> Any:
        # Arguments of a constructor are data, even as literals.
        return {} if self.record.kind == "creation" else _redact_parameters(self.location.parameters)

    def _column_mapping(self) -> dict[str, list[str]]:
        """Map output columns to direct sources in dot notation; a dot within a label is escaped."""
        output = self._label(self.record.output)
        return {
            # Versions of a loop may have the same name.
            f"{output}.{_escape_dots(label)}": list(
                dict.fromkeys(
                    f"{self._label(version)}.{_escape_dots(column)}"
                    for (version, column), flags in sources.items()
                    if flags & DIRECT
                )
            )
            for label, sources in self.fields.items()
        }

    def _edges(self) -> list[dict[str, Any]]:
        output = self._label(self.record.output)
        by_column: list[tuple[Hashable | None, Provenance]] = [*self.fields.items(), (None, self.record.rows)]
        return [
            {
                "output": output,
                "column": None if label is None else str(label),
                "source": self._label(version),
                "source_column": str(column),
                "type": kind,
                "subtype": subtype,
                # Absent in an exact edge: a wide frame has thousands of edges.
                **({"opaque": True} if flags & OPAQUE else {}),
                **({"inferred": True} if flags & INFERRED else {}),
            }
            for label, sources in by_column
            for (version, column), flags in sources.items()
            for kind, subtype in transformations(flags)
        ]

    def _label(self, version: FrameVersion | None) -> str:
        if version is None:
            return ""
        return (
            version.dataset.label if version.dataset is not None else self.aliases.get(version.uid, str(version.name))
        )

    def _dataframe_json(self, version: FrameVersion) -> dict[str, Any]:
        described = _described_version(version, self.record)
        size = described.size()
        return {
            "variable_name": self._label(version),
            "object_id": str(version.object_id or version.uid),
            "version": str(version.number) if version.dataset is None else None,
            "shape": list(described.shape) if described.shape is not None else None,
            "columns": [str(label) for label in described.labels()],
            "memory_usage_mb": round(size / _MEGABYTE, 6) if size is not None else None,
            **({"memory_usage_estimated": True} if size is not None and described.is_size_estimated else {}),
        }


def _escape_dots(label: Hashable) -> str:
    return str(label).replace(".", "\\.")


def _described_version(version: FrameVersion, record: OperationRecord) -> FrameVersion:
    """Return the frame that was read if the version is its file, else the version."""
    return record.output if version is record.read_from and record.output is not None else version


def _redact_parameters(parameters: Any) -> Any:
    if isinstance(parameters, str):
        return redact(parameters)
    if isinstance(parameters, list):
        return [_redact_parameters(item) for item in parameters]
    if isinstance(parameters, dict):
        return {key: "***" if _is_secret(key) else _redact_parameters(item) for key, item in parameters.items()}
    return parameters


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("password", "secret", "token", "api_key", "storage_options"))


def session_event(session: Session, kind: str, timestamp: float, engine: tuple[str, str]) -> dict[str, Any]:
    """Build the START, COMPLETE, FAIL or ABORT event of a session."""
    run_facets: dict[str, Any] = {
        "marimo_execution": facets.session_execution_facet(session),
        "processing_engine": facets.processing_engine_facet(*engine),
    }
    if kind == "FAIL":
        message = f"{session.failures} of {session.executions} cells ended in error"
        run_facets["errorMessage"] = facets.error_message_facet(message)
    if session.losses and kind != "START":
        run_facets["extractionError"] = facets.extraction_error_facet(session.losses)
    job = {
        "namespace": facets.NAMESPACE,
        "name": session.stem,
        "facets": {"jobType": facets.job_type_facet("NOTEBOOK"), **_location_facets(session, kind)},
    }
    run = {"runId": session.run_id, "facets": run_facets}
    return _openlineage_event(kind, format_timestamp(timestamp), run, job, session)


def cell_event(execution: Execution, kind: str, engine: tuple[str, str]) -> dict[str, Any]:
    """Build the START, COMPLETE, FAIL or ABORT event of a cell execution."""
    session, cell = execution.session, execution.cell
    run_facets: dict[str, Any] = {
        "parent": facets.session_parent_facet(session),
        "marimo_execution": facets.marimo_execution_facet(execution),
        "processing_engine": facets.processing_engine_facet(*engine),
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
    if execution.losses:
        run_facets["extractionError"] = facets.extraction_error_facet(execution.losses, len(execution.records))
    queries = [redact_query(record.sql, cell.source) for record in execution.records if record.sql is not None]
    job = {
        "namespace": facets.NAMESPACE,
        "name": f"{session.stem}/{cell.label}",
        "facets": {
            "jobType": facets.job_type_facet("CELL"),
            "sourceCode": facets.source_code_facet(redact(cell.source)),
            **_location_facets(session, kind),
            **({"sql": facets.sql_facet(queries)} if queries else {}),
        },
    }
    run = {"runId": execution.run_id, "facets": run_facets}
    return _openlineage_event(kind, format_timestamp(timestamp), run, job, execution)


def _location_facets(session: Session, kind: str) -> dict[str, Any]:
    # Once per run is enough; git is read once per session.
    if session.path is None or kind != "START":
        return {}
    return {"sourceCodeLocation": facets.source_code_location_facet(session.path, session.run_id)}


def _openlineage_event(
    kind: str,
    moment: str,
    run: dict[str, Any],
    job: Any,
    source: Execution | Session,
    inputs: Any = (),
    outputs: Any = (),
) -> dict[str, Any]:
    if isinstance(source, Session):
        # A session has no execution id; the field is set because readers expect it in all three streams.
        session_id = execution_id = source.session_id
        emitted_at = moment
    else:
        session_id, execution_id = source.session.session_id, source.execution_id
        emitted_at = format_timestamp(source.emitted_at)
    return {
        "eventType": kind,
        "eventTime": moment,
        "run": run,
        "job": job,
        "inputs": inputs,
        "outputs": outputs,
        "producer": facets.PRODUCER,
        "schemaURL": facets.EVENT_SCHEMA,
        "session_id": session_id,
        "execution_id": execution_id,
        "emitted_at": emitted_at,
    }


def cell_start_event(execution: Execution) -> dict[str, Any]:
    """Build the start event of a cell."""
    return _runtime_event(execution, "cell_execution_start", execution.started_at)


def cell_end_event(execution: Execution) -> dict[str, Any]:
    """Build the end or error event of a cell."""
    failure = execution.failure
    kind = "cell_execution_end" if failure is None else "cell_execution_error"
    event = _runtime_event(execution, kind, execution.started_at + execution.duration)
    event["end_memory_mb"] = execution.end_memory_mb
    event["duration_ms"] = round(execution.duration * 1000, 3)
    event["stopped"] = execution.is_stopped
    if execution.losses:
        event["capture_losses"] = [loss._asdict() for loss in execution.losses]
    if failure is not None:
        event["error_info"] = {
            "error_type": failure.error_type,
            "error_message": failure.message,
            "traceback": failure.traceback,
        }
    return event


def _runtime_event(execution: Execution, kind: str, timestamp: float) -> dict[str, Any]:
    cell = execution.cell
    return {
        "event_type": kind,
        "execution_id": execution.execution_id,
        "cell_id": cell.id,
        "cell_name": cell.name,
        "cell_index": cell.index,
        "cell_source": redact(cell.source),
        "cell_source_lines": len(cell.source.splitlines()),
        "notebook": execution.session.notebook,
        "start_memory_mb": execution.start_memory_mb,
        "timestamp": format_timestamp(timestamp),
        "session_id": execution.session.session_id,
        "emitted_at": format_timestamp(execution.emitted_at),
    }
