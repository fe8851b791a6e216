"""OpenLineage facets that the notebook agent writes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from clew import __version__
from clew.capture.flags import INFERRED, OPAQUE, transformations
from clew.capture.streams.encoding import encoded
from clew.capture.streams.redaction import type_name

if TYPE_CHECKING:
    from clew.capture.datasets import FileDataset
    from clew.capture.provenance import Provenance
    from clew.capture.sessions import Execution, Session
    from clew.capture.sources import Place
    from clew.capture.versions import FrameVersion

PRODUCER = f"https://github.com/clew-lineage/clew/marimo-lineage-tracker/{__version__}"
EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
NAMESPACE = "marimo"
_OFFICIAL = "https://openlineage.io/spec/facets"
_OWN = f"{PRODUCER}/facets"


def _facet(schema: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema, **content}


def _official(version: str, name: str) -> str:
    return f"{_OFFICIAL}/{version}/{name}.json#/$defs/{name}"


_SCHEMA = _official("1-2-0", "SchemaDatasetFacet")
_DATA_SOURCE = _official("1-0-1", "DatasourceDatasetFacet")
_VERSION = _official("1-0-1", "DatasetVersionDatasetFacet")
_DATASET_TYPE = _official("1-0-1", "DatasetTypeDatasetFacet")
_COLUMN_LINEAGE = _official("1-2-0", "ColumnLineageDatasetFacet")
_QUALITY = _official("1-0-0", "DataQualityMetricsDatasetFacet")
_INPUT_QUALITY = _official("1-0-3", "DataQualityMetricsInputDatasetFacet")
_STATISTICS = _official("1-0-2", "OutputStatisticsOutputDatasetFacet")
_INPUT_STATISTICS = _official("1-0-0", "InputStatisticsInputDatasetFacet")
_PARENT = _official("1-2-0", "ParentRunFacet")
_ENGINE = _official("1-1-1", "ProcessingEngineRunFacet")
_ERROR = _official("1-0-1", "ErrorMessageRunFacet")
_JOB_TYPE = _official("2-0-4", "JobTypeJobFacet")
_SOURCE_CODE = _official("1-0-1", "SourceCodeJobFacet")


def schema(version: FrameVersion, types: dict[Any, str]) -> dict[str, Any]:
    """Names and types of the columns; a named index level is a field too."""
    fields = [
        {"name": str(label), **({"type": type_name(types[label])} if label in types else {})}
        for label in version.labels()
    ]
    return _facet(_SCHEMA, {"fields": fields})


def data_source(version: FrameVersion) -> dict[str, Any]:
    """Where the data is: in memory, or in a file."""
    if version.dataset is not None:
        return _facet(_DATA_SOURCE, {"name": version.dataset.namespace, "uri": version.dataset.uri})
    return _facet(_DATA_SOURCE, {"name": "pandas-dataframe", "uri": f"memory://dataframe_{version.object_id}"})


def dataset_version(number: int) -> dict[str, Any]:
    """Which of the variable's versions this is."""
    return _facet(_VERSION, {"datasetVersion": str(number)})


@functools.cache
def frame_type() -> msgspec.Raw:
    """A frame lives as long as its notebook."""
    return encoded(_facet(_DATASET_TYPE, {"datasetType": "DATAFRAME", "subType": "TEMPORARY"}))


def column_lineage(fields: dict[Any, Provenance], rows: Provenance, named: Any) -> dict[str, Any]:
    """Edges of every column, and those that hold for the whole."""
    listed = {str(label): {"inputFields": _input_fields(found, named)} for label, found in fields.items() if found}
    return _facet(_COLUMN_LINEAGE, {"fields": listed, "dataset": _input_fields(rows, named)})


def _input_fields(provenance: Provenance, named: Any) -> list[dict[str, Any]]:
    return [
        {**named(version), "field": str(label), "transformations": _transformations(flags)}
        for (version, label), flags in provenance.items()
    ]


@functools.cache
def _transformations(flags: int) -> msgspec.Raw:
    mark = "opaque" if flags & OPAQUE else "inferred" if flags & INFERRED else ""
    listed = [
        {"type": kind, "subtype": subtype, "description": mark, "masking": False}
        for kind, subtype in transformations(flags)
    ]
    return encoded(listed)


def quality_metrics(metrics: dict[str, Any], *, is_input: bool = False) -> dict[str, Any]:
    """Counts of rows, nulls and distinct values, and the numeric bounds."""
    return _facet(_INPUT_QUALITY if is_input else _QUALITY, metrics)


def input_statistics(rows: int) -> dict[str, Any]:
    """How many rows were read."""
    return _facet(_INPUT_STATISTICS, {"rowCount": rows})


def output_statistics(rows: int) -> dict[str, Any]:
    """How many rows were written."""
    return _facet(_STATISTICS, {"rowCount": rows})


def session_parent(session: Session) -> dict[str, Any]:
    """The session as a cell's parent."""
    job = {"namespace": NAMESPACE, "name": session.stem}
    run = {"runId": session.run_id}
    return _facet(_PARENT, {"run": run, "job": job, "root": {"run": run, "job": job}})


@functools.lru_cache(maxsize=8)
def cell_parent(execution: Execution) -> msgspec.Raw:
    """The cell as an operation's parent, with the session as root."""
    session = execution.session
    root = {"run": {"runId": session.run_id}, "job": {"namespace": NAMESPACE, "name": session.stem}}
    job = {"namespace": NAMESPACE, "name": f"{session.stem}/{execution.cell.label}"}
    return encoded(_facet(_PARENT, {"run": {"runId": execution.run_id}, "job": job, "root": root}))


@functools.lru_cache(maxsize=8)
def engine(version: str) -> msgspec.Raw:
    """The library that did the work."""
    return encoded(_facet(_ENGINE, {"name": "pandas", "version": version, "openlineageAdapterVersion": __version__}))


def marimo_execution(execution: Execution, place: Place | None = None, code: str | None = None) -> dict[str, Any]:
    """Which cell, and which line of it."""
    cell = execution.cell
    content = {
        "executionId": execution.execution_id,
        "sessionId": execution.session.session_id,
        "cellId": cell.id,
        "cellName": cell.name,
        "cellIndex": cell.index,
        "notebook": execution.session.notebook,
    }
    if place is not None:
        content |= {"line": place.line, "endLine": place.end_line, "operationCode": code}
    return _facet(f"{_OWN}/MarimoExecutionRunFacet.json", content)


def session_execution(session: Session) -> dict[str, Any]:
    """Which session."""
    return _facet(
        f"{_OWN}/MarimoExecutionRunFacet.json", {"sessionId": session.session_id, "notebook": session.notebook}
    )


def performance(duration: float, overhead: float) -> dict[str, Any]:
    """What it took, and what of that was capture."""
    content = {"durationMs": round(duration * 1000, 3), "overheadMs": round(overhead * 1000, 4)}
    return _facet(f"{_OWN}/MarimoPerformanceRunFacet.json", content)


def error_message(message: str, trace: str = "") -> dict[str, Any]:
    """Why a run failed."""
    return _facet(
        _ERROR, {"message": message, "programmingLanguage": "python", **({"stackTrace": trace} if trace else {})}
    )


@functools.cache
def job_type(kind: str) -> msgspec.Raw:
    """NOTEBOOK, CELL or OPERATION."""
    return encoded(_facet(_JOB_TYPE, {"processingType": "BATCH", "integration": "MARIMO", "jobType": kind}))


def source_code(text: str) -> dict[str, Any]:
    """The code of a job."""
    return _facet(_SOURCE_CODE, {"language": "python", "sourceCode": text})


def identity(version: FrameVersion, notebook: str) -> dict[str, str]:
    """A dataset's namespace and name."""
    dataset: FileDataset | None = version.dataset
    if dataset is not None:
        return {"namespace": dataset.namespace, "name": dataset.name}
    return {"namespace": NAMESPACE, "name": f"{notebook}/{version.name}"}
