"""Schemas of the tables of the lake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

_STRING = pa.string()
_LONG = pa.int64()
_DOUBLE = pa.float64()
_TIME = pa.timestamp("us", tz="UTC")

_DATASET_IN_EVENT = pa.struct([("namespace", _STRING), ("name", _STRING), ("version", _STRING)])
FRAME_TYPE: Final = pa.struct(
    [
        ("variable_name", _STRING),
        ("object_id", _STRING),
        ("version", _STRING),
        ("row_count", _LONG),
        ("column_count", _LONG),
        ("columns", pa.list_(_STRING)),
        ("memory_usage_mb", _DOUBLE),
    ]
)


@dataclass(frozen=True)
class Table:
    """A table's name and columns. `large_text_columns` get no statistics and no dictionary.

    Compacted files are sorted by `sort_columns`, so that a look-up of one run or session reads one or two row groups.
    """

    name: str
    schema: pa.Schema
    large_text_columns: frozenset[str] = frozenset()
    sort_columns: tuple[str, ...] = ()


def _table(
    name: str, columns: dict[str, pa.DataType], *, large: tuple[str, ...] = (), clustered_by: tuple[str, ...] = ()
) -> Table:
    return Table(name, pa.schema(list(columns.items())), frozenset(large), clustered_by)


_EVENT_ORIGIN = {"event_id": _STRING, "seq": _LONG, "received_at": _TIME}
# Null unless the event was read from Kafka: JSON with topic, partition, offset, timestamp, key and headers.
_SOURCE_METADATA = {"source_metadata": _STRING}
_FACET_KEYS = {
    "uuid": _STRING,
    "created_at": _TIME,
    "run_uuid": _STRING,
    "lineage_event_time": _TIME,
    "lineage_event_type": _STRING,
}
_FACET_BODY = {"name": _STRING, "facet": _STRING}
_FACET_ORIGIN = {"event_id": _STRING, "seq": _LONG}
# Null unless the facet is stored in `large_facets`, or is invalid.
_FACET_STATUS = {"large_facet_bytes": _LONG, "facet_error": _STRING}
_JOB = {"job_namespace": _STRING, "job_name": _STRING}
_NOTEBOOK = {
    "session_id": _STRING,
    "execution_id": _STRING,
    "cell_id": _STRING,
    "cell_name": _STRING,
    "notebook": _STRING,
    "event_type": _STRING,
    "event_time": _TIME,
    "emitted_at": _TIME,
}

LINEAGE_EVENTS: Final = _table(
    "lineage_events",
    {
        **_EVENT_ORIGIN,
        "run_uuid": _STRING,
        "event_time": _TIME,
        "event_type": _STRING,
        "event": _STRING,
        "job_name": _STRING,
        "job_namespace": _STRING,
        "producer": _STRING,
        "kind": _STRING,
        "source": _STRING,
        "schema_url": _STRING,
        "session_id": _STRING,
        "execution_id": _STRING,
        "dataset_namespace": _STRING,
        "dataset_name": _STRING,
        "inputs": pa.list_(_DATASET_IN_EVENT),
        "outputs": pa.list_(_DATASET_IN_EVENT),
        # Null if the event was ingested with its facets.
        "is_raw_only": pa.bool_(),
        **_SOURCE_METADATA,
    },
    large=("event",),
    clustered_by=("run_uuid", "seq"),
)
DATASET_FACETS: Final = _table(
    "dataset_facets",
    {
        **_FACET_KEYS,
        "type": _STRING,
        **_FACET_BODY,
        "dataset_namespace": _STRING,
        "dataset_name": _STRING,
        "dataset_version": _STRING,
        # The list of the event that contains the dataset: a job may read and write the same dataset.
        "direction": _STRING,
        **_FACET_ORIGIN,
        **_FACET_STATUS,
    },
    large=("facet",),
    clustered_by=("run_uuid", "seq"),
)
JOB_FACETS: Final = _table(
    "job_facets",
    {**_FACET_KEYS, **_FACET_BODY, **_JOB, **_FACET_ORIGIN, **_FACET_STATUS},
    large=("facet",),
    clustered_by=("run_uuid", "seq"),
)
RUN_FACETS: Final = _table(
    "run_facets",
    {**_FACET_KEYS, **_FACET_BODY, **_JOB, **_FACET_ORIGIN, **_FACET_STATUS},
    large=("facet",),
    clustered_by=("run_uuid", "seq"),
)
# Facets above 64 KB, which would make their row group slow to read; null in the facet tables.
LARGE_FACETS: Final = _table(
    "large_facets",
    {"uuid": _STRING, "facet": _STRING, **_FACET_ORIGIN},
    large=("facet",),
    clustered_by=("seq", "uuid"),
)
RUNTIME_EVENTS: Final = _table(
    "runtime_events",
    {
        **_EVENT_ORIGIN,
        **_NOTEBOOK,
        "cell_index": _LONG,
        "cell_source": _STRING,
        "cell_source_lines": _LONG,
        "start_memory_mb": _DOUBLE,
        "end_memory_mb": _DOUBLE,
        "duration_ms": _DOUBLE,
        "stopped": pa.bool_(),
        "error_type": _STRING,
        "error_message": _STRING,
        "traceback": _STRING,
        "event": _STRING,
        **_SOURCE_METADATA,
    },
    large=("cell_source", "traceback", "event"),
    clustered_by=("session_id", "execution_id", "seq"),
)
DATAFRAME_EVENTS: Final = _table(
    "dataframe_events",
    {
        **_EVENT_ORIGIN,
        **_NOTEBOOK,
        "run_uuid": _STRING,
        "operation_type": _STRING,
        "operation_method": _STRING,
        "operation_code": _STRING,
        "line": _LONG,
        "end_line": _LONG,
        "count": _LONG,
        "operation_parameters": _STRING,
        "input_dataframes": pa.list_(FRAME_TYPE),
        "output_dataframes": pa.list_(FRAME_TYPE),
        "column_lineage": _STRING,
        "column_lineage_edges": _STRING,
        "overhead_ms": _DOUBLE,
        "duration_ms": _DOUBLE,
        "df_size_mb": _DOUBLE,
        "sampled": pa.bool_(),
        "event": _STRING,
        **_SOURCE_METADATA,
    },
    large=("operation_code", "column_lineage", "column_lineage_edges", "operation_parameters", "event"),
    clustered_by=("session_id", "execution_id", "seq"),
)
REJECTED_EVENTS: Final = _table(
    "rejected_events",
    {
        **_EVENT_ORIGIN,
        "stream": _STRING,
        "source": _STRING,
        "reason": _STRING,
        "detail": _STRING,
        "body": pa.binary(),
        **_SOURCE_METADATA,
    },
    large=("body",),
    clustered_by=("seq",),
)
# One row per backfilled chunk of raw-only events.
BACKFILLS: Final = _table(
    "backfills", {"number": _LONG, "first_seq": _LONG, "last_seq": _LONG, "events": _LONG, "finished_at": _TIME}
)

# In commit order: a visible facet has its body, and a visible event has all its facets.
EVENT_TABLES: Final = (
    LARGE_FACETS,
    DATASET_FACETS,
    JOB_FACETS,
    RUN_FACETS,
    RUNTIME_EVENTS,
    DATAFRAME_EVENTS,
    REJECTED_EVENTS,
    LINEAGE_EVENTS,
)
# Tables that cannot be derived from others.
SOURCE_TABLES: Final = (*EVENT_TABLES, BACKFILLS)
SOURCE_TABLE_NAMES: Final = tuple(table.name for table in SOURCE_TABLES)
FACET_TABLES: Final = (DATASET_FACETS, JOB_FACETS, RUN_FACETS)
# Tables with one row per event.
EVENT_GRAIN_TABLES: Final = ("lineage_events", "runtime_events", "dataframe_events", "rejected_events")
EVENT_TABLE_NAMES: Final = tuple(table.name for table in EVENT_TABLES)
DERIVED_TABLE_NAMES: Final = (
    "runs",
    "jobs",
    "job_versions",
    "datasets",
    "dataset_versions",
    "schemas",
    "tags",
    "owners",
    "run_io",
    "job_edges",
    "job_dependencies",
    "dataset_edges",
    "column_edges",
    "data_quality_assertions",
    "dataset_aliases",
    "current_run_facets",
    "current_job_facets",
    "current_dataset_facets",
    "cell_executions",
    "operations",
)
# Tables from which derived tables are computed, by the name of their merge specification. `schemas` is both.
STATE_TABLES: Final = {
    name: name if name == "schemas" else f"state_{name}"
    for name in (
        *("runs", "jobs", "referenced_runs", "referenced_jobs", "job_declarations", "schemas"),
        *("dataset_declarations", "datasets", "renames", "symlinks", "run_io", "reported_job_edges"),
        *("lineage_assertions", "job_dependency_assertions", "static_lineage", "edge_sets", "quality_assertions"),
        *("cell_executions", "operations"),
    )
}
STATE_TABLE_NAMES: Final = (
    *(table for table in STATE_TABLES.values() if table != "schemas"),
    "state_dataset_edges",
    *(f"state_deleted_{table.name}" for table in FACET_TABLES),
)
ALL_TABLE_NAMES: Final = (*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES)
TABLES_BY_NAME: Final = {table.name: table for table in EVENT_TABLES}
# Values rarely repeat within a file: no dictionary encoding.
HIGH_CARDINALITY_COLUMNS: Final = frozenset(
    {"uuid", "event_id", "seq", "event_time", "lineage_event_time", "source_metadata"}
)
LARGE_COLUMNS: Final = {
    **{table.name: table.large_text_columns for table in EVENT_TABLES},
    # Current and deleted facets, derived from the facet tables.
    **{
        f"{prefix}_{table.name}": table.large_text_columns
        for prefix in ("current", "state_deleted")
        for table in FACET_TABLES
    },
}
