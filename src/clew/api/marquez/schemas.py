"""Documents of responses, with the field names and the field order of Marquez."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec
from msgspec import Raw, structs

from clew.events.facets import Tag, decode_facet, get_str
from clew.index.queries.entities import Name
from clew.query.entities import model
from clew.query.model import Transformation

Columns = tuple[model.ColumnSources, ...]
# A JSON object.
Document: TypeAlias = dict[str, Any]

# Column lineage rarely changes between runs. Wide tables are not cached, to save memory.
_MAX_CACHED = 4096
_URI_CHARACTERS = "!$&'()*+,/:;=?@%~"
_URI_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?=.)")
_IPV6_ADDRESS = re.compile(r"//\[[0-9a-fA-F:.]+\]")
_LONE_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})")
# Schemes of `java.net.URL`.
_URL_SCHEMES = frozenset({"http", "https", "ftp", "file", "jar", "mailto"})
_MAX_CACHED_COLUMNS = 100


def format_column_lineage(columns: Columns) -> Raw | None:
    """Encode columns with their source columns; None if there are none."""
    return _encode_cached(columns) if len(columns) <= _MAX_CACHED_COLUMNS else _encode(columns)


def marquez_transformation_type(transformation: Transformation) -> str:
    """Return Marquez's transformationType."""
    return "MASKED" if transformation.is_masking else transformation.subtype or transformation.type


def _encode(columns: Columns) -> Raw | None:
    """Encode columns; sources and targets that are whole datasets are left out."""
    documents = []
    for column in columns:
        sources = [source for source in column.sources if source.field is not None]
        if column.name is not None and sources:
            inputs = [_input_field(source) for source in sources]
            first = _transformation_fields(sources[0].transformations)
            documents.append({"name": column.name, "inputFields": inputs, **first})
    return Raw(msgspec.json.encode(documents)) if documents else None


_encode_cached = lru_cache(_MAX_CACHED)(_encode)


def _input_field(source: model.SourceColumn) -> Document:
    """Convert a source column; `transformations` is an extension of clew."""
    return {
        "namespace": source.namespace,
        "dataset": source.dataset,
        "field": source.field,
        **_transformation_fields(source.transformations),
        "transformations": source.transformations,
    }


def _transformation_fields(transformations: Sequence[Transformation]) -> Document:
    """Marquez's fields describe the first transformation."""
    first = transformations[0] if transformations else None
    return {
        "transformationDescription": None if first is None else first.description,
        "transformationType": None if first is None else marquez_transformation_type(first),
    }


def _entity_id(namespace: str, name: str) -> Document:
    return {"namespace": namespace, "name": name}


def _version_id(namespace: str, name: str, version: str | None) -> Document:
    return {"namespace": namespace, "name": name, "version": version}


def format_run(run: model.CatalogRun) -> Document:
    """Convert a run."""
    duration_ms = run.duration_ms
    return {
        "id": run.id,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
        "nominalStartTime": run.nominal_start_at,
        "nominalEndTime": run.nominal_end_at,
        "state": run.state,
        # As in Marquez, a run that is only a parent has started when its first child is known.
        "startedAt": run.created_at if run.is_placeholder else run.started_at,
        "endedAt": run.ended_at,
        "durationMs": None if duration_ms is None else int(duration_ms),
        "args": _args(run),
        "jobVersion": None if run.job_version is None or run.job is None else _version_id(*run.job, run.job_version),
        "inputDatasetVersions": [_run_dataset(dataset, None) for dataset in run.inputs],
        "outputDatasetVersions": [_run_dataset(dataset, run.id) for dataset in run.outputs],
        "facets": run.facets,
    }


def _run_dataset(dataset: model.RunDataset, writer: str | None) -> Document:
    """Convert an input or output. The version always has an id, also if no completed write of it is known."""
    name = dataset.namespace, dataset.name
    version = dataset.version_id or model.make_version_id(name, dataset.version or "", writer)
    return {"datasetVersionId": _version_id(*name, version), "facets": dataset.facets}


def marquez_job_type(job: model.CatalogJob) -> Literal["BATCH", "STREAM"]:
    """Return Marquez's job type."""
    return "STREAM" if job.processing_type == "STREAMING" else "BATCH"


def format_job_base(job: model.CatalogJob, latest_run: Document | None) -> Document:
    """Convert the common fields of a job."""
    return {
        "id": _entity_id(job.namespace, job.name),
        "type": marquez_job_type(job),
        "name": job.name,
        # Without the parent's prefix.
        "simpleName": job.name if job.parent is None else job.name.removeprefix(f"{job.parent[1]}."),
        "parentJobName": None if job.parent is None else job.parent[1],
        "parentJobUuid": None if job.parent is None else model.key_uuid("job", *job.parent),
        "createdAt": job.created_at,
        "updatedAt": job.updated_at,
        "namespace": job.namespace,
        "inputs": _entity_ids(job.inputs),
        "outputs": _entity_ids(job.outputs),
        "location": _url(job.location),
        "description": job.description,
        "latestRun": latest_run,
    }


def format_job(job: model.CatalogJob) -> Document:
    """Convert a job."""
    latest = [format_run(run) for run in job.latest_runs]
    by_id = {run["id"]: run for run in latest}
    last = job.latest_run
    return {
        **format_job_base(job, None if last is None else by_id.get(last.id) or format_run(last)),
        "latestRuns": latest or None,
        "facets": job.facets,
        "currentVersion": job.current_version,
        "labels": [label for label in (job.type, job.integration) if label],
        "tags": _tag_names(job.tags),
    }


def format_job_version(version: model.JobVersion) -> Document:
    """Convert a job version."""
    return {
        "id": _version_id(version.namespace, version.name, version.version),
        "name": version.name,
        "createdAt": version.created_at,
        "version": version.version,
        "namespace": version.namespace,
        "location": _url(version.location),
        "inputs": _entity_ids(version.inputs),
        "outputs": _entity_ids(version.outputs),
        "latestRun": None if version.latest_run is None else format_run(version.latest_run),
    }


# Facets of requests to deprecated endpoints, for what no OpenLineage facet has.
DATASET_FACET = "clew_marquezDataset"
RUN_FACET = "clew_marquezRun"


def _declared(dataset: model.CatalogDataset | model.DatasetVersion) -> Document:
    """Return what a request to a deprecated endpoint has declared."""
    facet = dataset.facets.get(DATASET_FACET)
    return {} if facet is None else decode_facet(bytes(facet))


def _dataset_head(dataset: model.CatalogDataset | model.DatasetVersion) -> Document:
    declared = _declared(dataset)
    return {
        "id": _entity_id(dataset.namespace, dataset.name),
        "type": "STREAM" if _is_stream(declared) else "DB_TABLE",
        "name": dataset.name,
        "physicalName": get_str(declared, "physicalName") or dataset.physical_name,
        "createdAt": dataset.created_at,
    }


def _dataset_tail(dataset: model.CatalogDataset | model.DatasetVersion) -> Document:
    """Return the field that only streams have."""
    declared = _declared(dataset)
    return {"schemaLocation": get_str(declared, "schemaLocation")} if _is_stream(declared) else {}


def _is_stream(declared: Document) -> bool:
    return get_str(declared, "type") == "STREAM"


def format_dataset_base(dataset: model.CatalogDataset) -> Document:
    """Convert the common fields of a dataset."""
    version = dataset.current_version
    return {
        **_dataset_head(dataset),
        "updatedAt": dataset.updated_at,
        "namespace": dataset.namespace,
        "sourceName": dataset.source,
        "fields": dataset.fields,
        "tags": _tag_names(dataset.tags),
        # A declaration is no modification.
        "lastModifiedAt": None if version is None or version.run_uuid is None else version.created_at,
        "lastLifecycleState": dataset.lifecycle_state or "",
        "description": dataset.description,
    }


def format_dataset(dataset: model.CatalogDataset) -> Document:
    """Convert a dataset."""
    return {
        **format_dataset_base(dataset),
        "currentVersion": None if dataset.current_version is None else dataset.current_version.id,
        "columnLineage": format_column_lineage(dataset.columns),
        # As in Marquez, with the input facets.
        "facets": {**dataset.facets, **dataset.input_facets},
        "deleted": dataset.is_deleted,
        **_dataset_tail(dataset),
    }


def format_dataset_version(version: model.DatasetVersion) -> Document:
    """Convert a dataset version."""
    return {
        **_dataset_head(version),
        "version": version.version,
        "namespace": version.namespace,
        "sourceName": version.source,
        "fields": version.fields,
        "tags": _tag_names(version.tags),
        "lifecycleState": version.lifecycle_state or "",
        "description": version.description,
        "currentSchemaVersion": None
        if version.schema_version is None
        else model.key_uuid("schema", version.schema_version),
        "createdByRun": None if version.created_by is None else format_run(version.created_by),
        "facets": version.facets,
        **_dataset_tail(version),
    }


def _tag_names(tags: tuple[Tag, ...]) -> list[str]:
    """Return the names of the tags of the entity itself."""
    return sorted({tag.key for tag in tags if tag.field is None})


def format_source(source: model.DataSource) -> model.DataSource:
    """Convert a data source: characters that a URI cannot have are percent-encoded, as Java requires."""
    return structs.replace(source, connection_url=_to_uri(source.connection_url))


def _to_uri(text: str) -> str:
    """Percent-encode the characters that a URI cannot have at their position."""
    match = _URI_SCHEME.match(text)
    scheme, rest = ("", text) if match is None else (match[0], text[match.end() :])
    address = _IPV6_ADDRESS.match(rest)
    authority, rest = ("", rest) if address is None else (address[0], rest[address.end() :])
    if not scheme:
        # A colon in the first segment would end a scheme.
        segment, slash, path = rest.partition("/")
        rest = segment.replace(":", "%3A") + slash + path
    path, mark, fragment = rest.partition("#")
    quoted = (quote(_LONE_PERCENT.sub("%25", part), safe=_URI_CHARACTERS) for part in (path, fragment))
    return scheme + authority + (mark.join(quoted) if mark else next(quoted))


def _url(location: str | None) -> str | None:
    """Return a location if it is a URL that Java can parse; Marquez has no others."""
    return location if location is not None and location.partition(":")[0].lower() in _URL_SCHEMES else None


def _entity_ids(names: tuple[Name, ...]) -> list[Document]:
    return [_entity_id(*name) for name in names]


def _args(run: model.CatalogRun) -> dict[str, str]:
    parent = run.parent
    args = {
        "nominal_start_time": _format_timestamp(run.nominal_start_at),
        "nominal_end_time": _format_timestamp(run.nominal_end_at),
        "run_id": parent.run_id,
        "name": parent.name,
        "namespace": parent.namespace,
    }
    sent = run.facets.get(RUN_FACET)
    known = {} if sent is None else decode_facet(bytes(sent)).get("args")
    own = {name: value for name, value in known.items() if isinstance(value, str)} if isinstance(known, dict) else {}
    return {**{name: value for name, value in args.items() if value is not None}, **own}


def _format_timestamp(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else timestamp.isoformat().replace("+00:00", "Z")
