"""OpenLineage facets written by capture."""

from __future__ import annotations

import contextlib
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from clew import __version__
from clew.capture.emit.files import encode_raw
from clew.capture.emit.redaction import redact, redact_type
from clew.capture.lineage.transformations import INFERRED, OPAQUE, transformations

if TYPE_CHECKING:
    from clew.capture.environments.session import Execution, LossReport, Session
    from clew.capture.introspection.source_map import SourceLocation
    from clew.capture.lineage.datasets import ExternalDataset
    from clew.capture.lineage.frame_version import FrameVersion
    from clew.capture.lineage.provenance import Provenance

PRODUCER = f"https://github.com/clew-lineage/clew/marimo-lineage-tracker/{__version__}"
EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
NAMESPACE = "marimo"
_OPENLINEAGE_FACETS = "https://openlineage.io/spec/facets"
_CLEW_FACETS = "https://github.com/clew-lineage/clew/schemas/facets"


def _facet(schema: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema, **content}


def _schema_url(version: str, name: str, base: str = _OPENLINEAGE_FACETS) -> str:
    return f"{base}/{version}/{name}.json#/$defs/{name}"


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
_SOURCE_LOCATION = _schema_url("1-1-0", "SourceCodeLocationJobFacet")
_SQL = _schema_url("1-1-0", "SQLJobFacet")
_EXTRACTION_ERROR = _schema_url("1-1-2", "ExtractionErrorRunFacet")
# Of one event.
_MAX_LOSSES = 50
_SOURCE_CODE = _schema_url("1-0-1", "SourceCodeJobFacet")
# The schemas of these are in `clew/events/schemas`.
_EXECUTION = _schema_url("1-0-0", "MarimoExecutionRunFacet", _CLEW_FACETS)
_PERFORMANCE = _schema_url("1-0-0", "MarimoPerformanceRunFacet", _CLEW_FACETS)


def schema_facet(
    version: FrameVersion, types: dict[Any, str], descriptions: dict[str, str] | None = None
) -> dict[str, Any]:
    """Build the schema facet; named index levels are fields as well."""
    texts = descriptions or {}
    fields = [
        {
            "name": str(label),
            **({"type": redact_type(types[label])} if label in types else {}),
            **({"description": redact(texts[str(label)])} if str(label) in texts else {}),
        }
        for label in version.labels()
    ]
    return _facet(_SCHEMA, {"fields": fields})


def data_source_facet(version: FrameVersion) -> dict[str, Any]:
    """Build the data source facet: in memory, or a file or table."""
    if version.dataset is not None:
        return _facet(_DATA_SOURCE, {"name": version.dataset.namespace or "memory", "uri": version.dataset.uri})
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
        {"type": kind, "subtype": subtype, **({"description": mark} if mark else {})}
        for kind, subtype in transformations(flags)
    ]
    return encode_raw(transformation_list)


def quality_metrics_facet(metrics: dict[str, Any], *, is_input: bool = False) -> dict[str, Any]:
    """Build the data quality facet: row, null and distinct counts, and numeric bounds."""
    return _facet(_INPUT_QUALITY if is_input else _QUALITY, metrics)


def input_statistics_facet(rows: int) -> dict[str, Any]:
    """Build the input statistics facet: rows read."""
    return _facet(_INPUT_STATISTICS, {"rowCount": rows})


def output_statistics_facet(rows: int, size: int | None = None) -> dict[str, Any]:
    """Build the output statistics facet: rows written, and the size of the file in bytes."""
    return _facet(_STATISTICS, {"rowCount": rows, **({"size": size} if size is not None else {})})


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
    return _facet(_EXECUTION, content)


def session_execution_facet(session: Session) -> dict[str, Any]:
    """Build the execution facet of a session."""
    return _facet(_EXECUTION, {"sessionId": session.session_id, "notebook": session.notebook})


def performance_facet(duration: float, overhead: float) -> dict[str, Any]:
    """Build the performance facet: duration and capture overhead."""
    content = {"durationMs": round(duration * 1000, 3), "overheadMs": round(overhead * 1000, 4)}
    return _facet(_PERFORMANCE, content)


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


def sql_facet(queries: list[str]) -> dict[str, Any]:
    """Build the SQL facet of an operation or a cell."""
    return _facet(_SQL, {"query": ";\n".join(queries), "dialect": "duckdb"})


def extraction_error_facet(losses: list[LossReport], recorded: int = 0) -> dict[str, Any]:
    """Build the facet of what capture could not follow, each with its cell and code."""
    failed = sum(loss.times for loss in losses)
    errors = [
        {
            "errorMessage": f"{_loss_place(loss)}{loss.operation} ({loss.error_type})"
            + (f", {loss.times} times" if loss.times > 1 else ""),
            "task": loss.code or loss.operation,
        }
        for loss in losses[:_MAX_LOSSES]
    ]
    return _facet(_EXTRACTION_ERROR, {"totalTasks": recorded + failed, "failedTasks": failed, "errors": errors})


def _loss_place(loss: LossReport) -> str:
    line = f", line {loss.line}" if loss.line is not None else ""
    return f"cell {loss.cell}{line}: " if loss.cell is not None else ""


@functools.lru_cache(maxsize=8)
def source_code_location_facet(path: Path, _session: str) -> msgspec.Raw:
    """Build the source location facet of a notebook, with its repository if it is in one; once per session."""
    content: dict[str, Any] = {"type": "file", "url": path.as_uri()}
    with contextlib.suppress(OSError, ValueError):
        content |= _git_location(path.resolve())
    return encode_raw(_facet(_SOURCE_LOCATION, content))


def _git_location(path: Path) -> dict[str, str]:
    """Read commit, branch and remote from the files of git, without starting it."""
    root = next((folder for folder in path.parents if (folder / ".git").exists()), None)
    if root is None:
        return {}
    git = root / ".git"
    if git.is_file():
        # A worktree or a submodule.
        git = (root / git.read_text("utf-8").removeprefix("gitdir:").strip()).resolve()
    common = (git / (git / "commondir").read_text("utf-8").strip()).resolve() if (git / "commondir").exists() else git
    head = (git / "HEAD").read_text("utf-8").strip()
    reference = head.removeprefix("ref:").strip() if head.startswith("ref:") else None
    version = _resolve_reference(common, reference) if reference is not None else head
    remote = _remote_url(common)
    found = {"type": "git", "path": path.relative_to(root).as_posix()}
    if reference is not None:
        found["branch"] = reference.removeprefix("refs/heads/")
    if version is not None:
        found["version"] = version
    if remote is not None:
        found["repoUrl"] = remote
        page = re.sub(r"^(?:ssh://)?(?:[^@/]+@)?([^:/]+)[:/](?!/)", r"https://\1/", remote.removesuffix(".git"))
        if version is not None and page.startswith("https://"):
            found["url"] = f"{page}/blob/{version}/{quote(found['path'])}"
    return found


def _resolve_reference(git: Path, reference: str) -> str | None:
    """Return the commit of a reference; None in a repository without commits."""
    if (git / reference).exists():
        return (git / reference).read_text("utf-8").strip()
    packed = (git / "packed-refs").read_text("utf-8") if (git / "packed-refs").exists() else ""
    return next((line.split()[0] for line in packed.splitlines() if line.endswith(f" {reference}")), None)


def _remote_url(git: Path) -> str | None:
    """Return the URL of the remote `origin`, or of the first, without credentials."""
    sections = re.split(r"^\s*\[", (git / "config").read_text("utf-8"), flags=re.MULTILINE)
    found = [re.match(r'remote "(.+?)"\](?:.|\n)*?^\s*url\s*=\s*(\S+)', text, re.MULTILINE) for text in sections]
    urls = {match[1]: match[2] for match in found if match is not None}
    url = urls.get("origin") or next(iter(urls.values()), None)
    return re.sub(r"^(https?://)[^@/]+@", r"\1", url) if url is not None else None


def dataset_id(version: FrameVersion, notebook: str) -> dict[str, str]:
    """Return the namespace and name of a dataset."""
    dataset: ExternalDataset | None = version.dataset
    if dataset is not None and dataset.namespace:
        return {"namespace": dataset.namespace, "name": dataset.name}
    if dataset is not None:
        return {"namespace": NAMESPACE, "name": f"{notebook}/{dataset.name}"}
    return {"namespace": NAMESPACE, "name": f"{notebook}/{version.name}"}
