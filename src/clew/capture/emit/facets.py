"""OpenLineage facets written by capture."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from clew import __version__
from clew.capture.emit.files import encode_raw
from clew.capture.emit.redaction import redact_type
from clew.capture.lineage.transformations import INFERRED, OPAQUE, transformations

if TYPE_CHECKING:
    from clew.capture.environments.session import Execution, Session
    from clew.capture.introspection.source_map import SourceLocation
    from clew.capture.lineage.datasets import ExternalDataset
    from clew.capture.lineage.frame_version import FrameVersion
    from clew.capture.lineage.provenance import Provenance

PRODUCER = f"https://github.com/clew-lineage/clew/marimo-lineage-tracker/{__version__}"
EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
NAMESPACE = "marimo"
_OPENLINEAGE_FACETS = "https://openlineage.io/spec/facets"
_CLEW_FACETS = f"{PRODUCER}/facets"


def _facet(schema: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema, **content}


def _schema_url(version: str, name: str) -> str:
    return f"{_OPENLINEAGE_FACETS}/{version}/{name}.json#/$defs/{name}"


_SCHEMA = _schema_url("1-2-0", "SchemaDatasetFacet")
_DATA_SOURCE = _schema_url("1-0-1", "DatasourceDatasetFacet")
_VERSION = _schema_url("1-0-1", "DatasetVersionDatasetFacet")
_DATASET_TYPE = _schema_url("1-0-1", "DatasetTypeDatasetFacet")
_COLUMN_LINEAGE = _schema_url("1-2-0", "ColumnLineageDatasetFacet")
_QUALITY = _schema_url("1-0-0", "DataQualityMetricsDatasetFacet")
_INPUT_QUALITY = _schema_url("1-0-3", "DataQualityMetricsInputDatasetFacet")
_STATISTICS = _schema_url("1-0-2", "OutputStatisticsOutputDatasetFacet")
_INPUT_STATISTICS = _schema_url("1-0-0", "InputStatisticsInputDatasetFacet")
_PARENT = _schema_url("1-2-0", "ParentRunFacet")
_ENGINE = _schema_url("1-1-1", "ProcessingEngineRunFacet")
_ERROR = _schema_url("1-0-1", "ErrorMessageRunFacet")
_JOB_TYPE = _schema_url("2-0-4", "JobTypeJobFacet")
_SOURCE_CODE = _schema_url("1-0-1", "SourceCodeJobFacet")


def schema_facet(version: FrameVersion, types: dict[Any, str]) -> dict[str, Any]:
    """Build the schema facet; named index levels are fields as well."""
    fields = [
        {"name": str(label), **({"type": redact_type(types[label])} if label in types else {})}
        for label in version.labels()
    ]
    return _facet(_SCHEMA, {"fields": fields})


def data_source_facet(version: FrameVersion) -> dict[str, Any]:
    """Build the data source facet: in memory, or a file or table."""
    if version.dataset is not None:
        return _facet(_DATA_SOURCE, {"name": version.dataset.namespace, "uri": version.dataset.uri})
    return _facet(
        _DATA_SOURCE, {"name": f"{version.engine}-dataframe", "uri": f"memory://dataframe_{version.object_id}"}
    )


def dataset_version_facet(number: int) -> dict[str, Any]:
    """Build the version facet: the version number of the variable."""
    return _facet(_VERSION, {"datasetVersion": str(number)})


@functools.cache
def dataset_type_facet() -> msgspec.Raw:
    """Build the dataset type facet of a frame, which is temporary."""
    return encode_raw(_facet(_DATASET_TYPE, {"datasetType": "DATAFRAME", "subType": "TEMPORARY"}))


def column_lineage_facet(fields: dict[Any, Provenance], rows: Provenance, dataset_id_of: Any) -> dict[str, Any]:
    """Build the column lineage facet: edges of every column and of the whole dataset."""
    fields_json = {
        str(label): {"inputFields": _input_fields(sources, dataset_id_of)}
        for label, sources in fields.items()
        if sources
    }
    return _facet(_COLUMN_LINEAGE, {"fields": fields_json, "dataset": _input_fields(rows, dataset_id_of)})


def _input_fields(provenance: Provenance, dataset_id_of: Any) -> list[dict[str, Any]]:
    return [
        {**dataset_id_of(version), "field": str(label), "transformations": _transformations(flags)}
        for (version, label), flags in provenance.items()
    ]


@functools.cache
def _transformations(flags: int) -> msgspec.Raw:
    mark = "opaque" if flags & OPAQUE else "inferred" if flags & INFERRED else ""
    transformation_list = [
        {"type": kind, "subtype": subtype, "description": mark, "masking": False}
        for kind, subtype in transformations(flags)
    ]
    return encode_raw(transformation_list)


def quality_metrics_facet(metrics: dict[str, Any], *, is_input: bool = False) -> dict[str, Any]:
    """Build the data quality facet: row, null and distinct counts, and numeric bounds."""
    return _facet(_INPUT_QUALITY if is_input else _QUALITY, metrics)


def input_statistics_facet(rows: int) -> dict[str, Any]:
    """Build the input statistics facet: rows read."""
    return _facet(_INPUT_STATISTICS, {"rowCount": rows})


def output_statistics_facet(rows: int) -> dict[str, Any]:
    """Build the output statistics facet: rows written."""
    return _facet(_STATISTICS, {"rowCount": rows})


def session_parent_facet(session: Session) -> dict[str, Any]:
    """Build the parent facet of a cell: its session."""
    job = {"namespace": NAMESPACE, "name": session.stem}
    run = {"runId": session.run_id}
    return _facet(_PARENT, {"run": run, "job": job, "root": {"run": run, "job": job}})


@functools.lru_cache(maxsize=8)
def cell_parent_facet(execution: Execution) -> msgspec.Raw:
    """Build the parent facet of an operation: its cell, with the session as root."""
    session = execution.session
    root = {"run": {"runId": session.run_id}, "job": {"namespace": NAMESPACE, "name": session.stem}}
    job = {"namespace": NAMESPACE, "name": f"{session.stem}/{execution.cell.label}"}
    return encode_raw(_facet(_PARENT, {"run": {"runId": execution.run_id}, "job": job, "root": root}))


@functools.lru_cache(maxsize=8)
def processing_engine_facet(name: str, version: str) -> msgspec.Raw:
    """Build the processing engine facet: name and version of a backend."""
    return encode_raw(_facet(_ENGINE, {"name": name, "version": version, "openlineageAdapterVersion": __version__}))


def marimo_execution_facet(
    execution: Execution, location: SourceLocation | None = None, code: str | None = None
) -> dict[str, Any]:
    """Build the execution facet of a cell, or of an operation with its location."""
    cell = execution.cell
    content = {
        "executionId": execution.execution_id,
        "sessionId": execution.session.session_id,
        "cellId": cell.id,
        "cellName": cell.name,
        "cellIndex": cell.index,
        "notebook": execution.session.notebook,
    }
    if location is not None:
        content |= {"line": location.line, "endLine": location.end_line, "operationCode": code}
    return _facet(f"{_CLEW_FACETS}/MarimoExecutionRunFacet.json", content)


def session_execution_facet(session: Session) -> dict[str, Any]:
    """Build the execution facet of a session."""
    return _facet(
        f"{_CLEW_FACETS}/MarimoExecutionRunFacet.json", {"sessionId": session.session_id, "notebook": session.notebook}
    )


def performance_facet(duration: float, overhead: float) -> dict[str, Any]:
    """Build the performance facet: duration and capture overhead."""
    content = {"durationMs": round(duration * 1000, 3), "overheadMs": round(overhead * 1000, 4)}
    return _facet(f"{_CLEW_FACETS}/MarimoPerformanceRunFacet.json", content)


def error_message_facet(message: str, trace: str = "") -> dict[str, Any]:
    """Build the error facet of a failed run."""
    return _facet(
        _ERROR, {"message": message, "programmingLanguage": "python", **({"stackTrace": trace} if trace else {})}
    )


@functools.cache
def job_type_facet(kind: str) -> msgspec.Raw:
    """Build the job type facet: NOTEBOOK, CELL or OPERATION."""
    return encode_raw(_facet(_JOB_TYPE, {"processingType": "BATCH", "integration": "MARIMO", "jobType": kind}))


def source_code_facet(text: str) -> dict[str, Any]:
    """Build the source code facet of a job."""
    return _facet(_SOURCE_CODE, {"language": "python", "sourceCode": text})


def dataset_id(version: FrameVersion, notebook: str) -> dict[str, str]:
    """Return the namespace and name of a dataset."""
    dataset: ExternalDataset | None = version.dataset
    if dataset is not None:
        return {"namespace": dataset.namespace, "name": dataset.name}
    return {"namespace": NAMESPACE, "name": f"{notebook}/{version.name}"}
