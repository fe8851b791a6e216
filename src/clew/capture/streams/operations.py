"""One operation as events: START and its end in OpenLineage, and one DataFrame lineage event."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from clew.capture.flags import DIRECT, INFERRED, OPAQUE, transformations
from clew.capture.streams import facets
from clew.capture.streams.clock import written
from clew.capture.streams.encoding import encoded
from clew.capture.streams.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.provenance import Provenance
    from clew.capture.records import Record
    from clew.capture.sessions import Execution
    from clew.capture.sources import Place
    from clew.capture.versions import FrameVersion

_MEGABYTE = 1024 * 1024


@dataclass
class Operation:
    """A record with its names given, ready to be told."""

    execution: Execution
    record: Record
    name: str
    place: Place
    metrics: dict[FrameVersion, dict[str, Any]]
    run_id: str
    engine: str

    def __post_init__(self) -> None:
        self.code = redacted(self.place.text)
        self.inputs = self.record.inputs()
        output = self.record.output
        self.fields = self.record.fields_of(output) if output is not None else {}
        self.started = written(self.execution.at(self.record.started))
        self.ended = written(self.execution.at(self.record.started + self.record.duration))

    def openlineage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """START and COMPLETE or FAIL, paired by one run id."""
        return self._event("START", self.started), self._event(
            "COMPLETE" if self.record.error is None else "FAIL", self.ended
        )

    def _event(self, kind: str, moment: str) -> dict[str, Any]:
        outputs = [self._output(self.record.output)] if kind == "COMPLETE" and self.record.output is not None else []
        return {
            "eventType": kind,
            "eventTime": moment,
            "run": {"runId": self.run_id, "facets": self._run_facets(kind)},
            "job": self._job,
            "inputs": self._inputs,
            "outputs": outputs,
            "producer": facets.PRODUCER,
            "schemaURL": facets.EVENT_SCHEMA,
            "session_id": self.execution.session.session_id,
            "execution_id": self.execution.execution_id,
            "emitted_at": written(self.execution.told_at),
        }

    @cached_property
    def _job(self) -> msgspec.Raw:
        name = f"{self.execution.session.stem}/{self.execution.cell.label}/{self.name}"
        own = {"jobType": facets.job_type("OPERATION"), "sourceCode": facets.source_code(self.code)}
        return encoded({"namespace": facets.NAMESPACE, "name": name, "facets": own})

    @cached_property
    def _inputs(self) -> msgspec.Raw:
        return encoded([self._input(version) for version in self.inputs])

    @cached_property
    def _common_run_facets(self) -> dict[str, Any]:
        return {
            "parent": facets.cell_parent(self.execution),
            "processing_engine": facets.engine(self.engine),
            "marimo_execution": encoded(facets.marimo_execution(self.execution, self.place, self.code)),
        }

    def _run_facets(self, kind: str) -> dict[str, Any]:
        found = dict(self._common_run_facets)
        if kind != "START":
            found["marimo_performance"] = facets.performance(self.record.duration, self.record.overhead)
        if self.record.error is not None and kind == "FAIL":
            error_type, message = self.record.error
            found["errorMessage"] = facets.error_message(redacted(f"{error_type}: {message}"))
        return found

    def _identity(self, version: FrameVersion) -> dict[str, str]:
        return facets.identity(version, self.execution.session.stem)

    def _dataset_facets(self, version: FrameVersion) -> dict[str, Any]:
        if version.dataset is not None:
            types = self.record.written_types or self._types_read(version)
            return {
                "schema": facets.schema(_described(version, self.record), types),
                "dataSource": facets.data_source(version),
            }
        if version.told is None:
            version.told = {
                "schema": encoded(facets.schema(version, version.types())),
                "dataSource": encoded(facets.data_source(version)),
                "version": encoded(facets.dataset_version(version.number)),
                "datasetType": facets.frame_type(),
            }
        return dict(version.told)

    def _types_read(self, version: FrameVersion) -> dict[Hashable, str]:
        output = self.record.output
        return output.types() if output is not None and version is self.record.read_from else {}

    def _input(self, version: FrameVersion) -> dict[str, Any]:
        found: dict[str, Any] = {}
        # Of a file, what is known is what was read from it.
        seen = self.record.output if version is self.record.read_from and self.record.output else version
        if seen is not version and seen.shape is not None:
            found["inputStatistics"] = facets.input_statistics(seen.shape[0])
        metrics = self.metrics.get(seen) or self.metrics.get(version)
        if metrics:
            found["dataQualityMetrics"] = facets.quality_metrics(metrics, is_input=True)
        own = {"facets": self._dataset_facets(version), **({"inputFacets": found} if found else {})}
        return {**self._identity(version), **own}

    def _output(self, version: FrameVersion) -> dict[str, Any]:
        found = self._dataset_facets(version)
        found["columnLineage"] = facets.column_lineage(self.fields, self.record.rows, self._identity)
        metrics = self.metrics.get(version) or (
            self.metrics.get(self.record.parents[0]) if version.dataset and self.record.parents else None
        )
        if metrics:
            found["dataQualityMetrics"] = facets.quality_metrics(metrics)
        dataset = {**self._identity(version), "facets": found}
        if version.dataset is not None and version.shape is not None:
            dataset["outputFacets"] = {"outputStatistics": facets.output_statistics(version.shape[0])}
        return dataset

    def dataframe(self) -> dict[str, Any]:
        """The DataFrame lineage event."""
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
            "emitted_at": written(execution.told_at),
            "operation_type": record.kind,
            "operation_method": record.method,
            "operation_code": self.code,
            "line": self.place.line,
            "end_line": self.place.end_line,
            "count": record.count,
            "operation_parameters": self._parameters(),
            "input_dataframes": [_dataframe(version, record) for version in self.inputs],
            "output_dataframes": [_dataframe(output, record)] if output is not None else [],
            "column_lineage": self._mapping(),
            "column_lineage_edges": self._edges(),
            "performance": {
                "overhead_ms": round(record.overhead * 1000, 4),
                "duration_ms": round(record.duration * 1000, 3),
                "df_size_mb": round(size, 6),
                "sampled": bool(self.metrics.get(output, {}).get("sampled")) if output is not None else False,
            },
        }

    def _parameters(self) -> Any:
        # What a frame is created from is data, even where it stands in the code.
        return {} if self.record.kind == "creation" else _redacted_parameters(self.place.parameters)

    def _mapping(self) -> dict[str, list[str]]:
        """Direct sources only, in dot notation; a dot within a label is escaped."""
        output = _label(self.record.output)
        return {
            f"{output}.{_escaped(label)}": [
                f"{_label(version)}.{_escaped(column)}" for (version, column), flags in found.items() if flags & DIRECT
            ]
            for label, found in self.fields.items()
        }

    def _edges(self) -> list[dict[str, Any]]:
        output = _label(self.record.output)
        by_column: list[tuple[Hashable | None, Provenance]] = [*self.fields.items(), (None, self.record.rows)]
        return [
            {
                "output": output,
                "column": None if label is None else str(label),
                "source": _label(version),
                "source_column": str(column),
                "type": kind,
                "subtype": subtype,
                "opaque": bool(flags & OPAQUE),
                "inferred": bool(flags & INFERRED),
            }
            for label, found in by_column
            for (version, column), flags in found.items()
            for kind, subtype in transformations(flags)
        ]


def _label(version: FrameVersion | None) -> str:
    if version is None:
        return ""
    return version.dataset.label if version.dataset is not None else str(version.name)


def _escaped(label: Hashable) -> str:
    return str(label).replace(".", "\\.")


def _described(version: FrameVersion, record: Record) -> FrameVersion:
    """A file that was read has the columns that were read from it."""
    return record.output if version is record.read_from and record.output is not None else version


def _dataframe(version: FrameVersion, record: Record) -> dict[str, Any]:
    told = _described(version, record)
    size = told.size()
    return {
        "variable_name": _label(version),
        "object_id": str(version.object_id or version.uid),
        "version": str(version.number) if version.dataset is None else None,
        "shape": list(told.shape) if told.shape is not None else None,
        "columns": [str(label) for label in told.labels()],
        "memory_usage_mb": round(size / _MEGABYTE, 6) if size is not None else None,
    }


def _redacted_parameters(parameters: Any) -> Any:
    if isinstance(parameters, str):
        return redacted(parameters)
    if isinstance(parameters, list):
        return [_redacted_parameters(item) for item in parameters]
    if isinstance(parameters, dict):
        return {key: "***" if _is_secret(key) else _redacted_parameters(item) for key, item in parameters.items()}
    return parameters


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("password", "secret", "token", "api_key", "storage_options"))
