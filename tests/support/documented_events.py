"""Events and facets exactly as the documents of the first notebook format have them."""

from __future__ import annotations

from typing import Any

TRACKER = "marimo-lineage-tracker"
RUNTIME_EVENT: dict[str, Any] = {
    "event_type": "cell_execution_start",
    "execution_id": "3731cb9b",
    "cell_id": "MJUe",
    "cell_source": 'df1 = pd.read_csv("test_data.csv")',
    "cell_source_lines": 3,
    "start_memory_mb": 101.09,
    "timestamp": "2025-06-26T22:55:40.932379+00:00",
    "session_id": "6ac33987",
    "emitted_at": "2025-06-26T22:55:40.932495+00:00",
}
FRAME = {
    "variable_name": "df_filtered_123",
    "object_id": "140234567891",
    "shape": [3, 3],
    "columns": ["name", "age", "salary"],
    "memory_usage_mb": 0.001,
}
# Eleven fields, none of them a time.
DATAFRAME_EVENT: dict[str, Any] = {
    "event_type": "dataframe_lineage",
    "execution_id": "cac41f13",
    "cell_id": "vblA",
    "session_id": "12c3604f",
    "operation_type": "selection",
    "operation_method": "__getitem__",
    "operation_code": "df[df['age'] > 25]",
    "input_dataframes": [{**FRAME, "variable_name": "df"}],
    "output_dataframes": [FRAME],
    "column_lineage": {
        "df_filtered.name": ["df.name"],
        "df_filtered.age": ["df.age"],
        "df_filtered.salary": ["df.salary"],
    },
    "performance": {"overhead_ms": 0.2, "df_size_mb": 0.001, "sampled": False},
}
SCHEMA_FACET = {
    "_producer": TRACKER,
    "_schemaURL": "https://openlineage.io/spec/facets/1-0-0/SchemaDatasetFacet.json",
    "fields": [{"name": "col_x", "type": "object", "description": "Column col_x of type object"}],
}
DATA_SOURCE_FACET = {
    "_producer": TRACKER,
    "_schemaURL": "https://openlineage.io/spec/facets/1-0-0/DatasourceDatasetFacet.json",
    "name": "pandas-dataframe",
    "uri": "memory://dataframe_4395437424",
}
METRICS_FACET = {"columnMetrics": {"col_y": {"nullCount": 0, "distinctCount": 3, "min": 1.0, "max": 3.0}}}
SOURCE_FIELD = {"namespace": "marimo", "name": "dataframe_4395437424_input_arg_0", "field": "col_x"}
COLUMN_LINEAGE_FACET = {"fields": {"col_x": {"inputFields": [SOURCE_FIELD]}}}
PERFORMANCE_FACET = {"_producer": TRACKER, "durationMs": 4.13}
EXECUTION_FACET = {"_producer": TRACKER, "executionId": "3731cb9b", "sessionId": "60908ddd"}
DATASET_FACETS = {"schema": SCHEMA_FACET, "dataSource": DATA_SOURCE_FACET, "columnMetrics": METRICS_FACET}
OPENLINEAGE_EVENT: dict[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2025-06-26T22:55:41.012345+00:00",
    "run": {
        "runId": "3b452093-782c-4ef2-9c0c-aafe2aa6f34d",
        "facets": {"performance": PERFORMANCE_FACET, "marimoExecution": EXECUTION_FACET},
    },
    "job": {"namespace": "marimo", "name": "pandas_merge"},
    "inputs": [{"namespace": "marimo", "name": "dataframe_4395437424_input_arg_0", "facets": DATASET_FACETS}],
    "outputs": [
        {
            "namespace": "marimo",
            "name": "dataframe_4395437424",
            "facets": {**DATASET_FACETS, "columnLineage": COLUMN_LINEAGE_FACET},
        }
    ],
    "producer": TRACKER,
    "schemaURL": "https://openlineage.io/spec/1-0-5/OpenLineage.json",
    "session_id": "60908ddd",
    "emitted_at": "2025-06-26T22:55:41.012399+00:00",
}
# The START event of the OpenLineage document, which has trailing commas.
START_WITH_TRAILING_COMMAS = """{
  "eventType": "START",
  "eventTime": "2020-12-09T23:37:31.081Z",
  "run": {
    "runId": "3b452093-782c-4ef2-9c0c-aafe2aa6f34d",
  },
  "job": {
    "namespace": "my-scheduler-namespace",
    "name": "myjob.mytask",
  },
  "inputs": [
    {
      "namespace": "my-datasource-namespace",
      "name": "instance.schema.table",
    }
  ],
  "outputs": [
    {
      "namespace": "my-datasource-namespace",
      "name": "instance.schema.output_table",
    }
  ],
  "producer": "https://github.com/OpenLineage/OpenLineage/blob/v1-0-0/client",
  "schemaURL": "https://openlineage.io/spec/1-0-0/OpenLineage.json#/definitions/RunEvent"
}
"""
DOCUMENTED_EVENTS = {"runtime": RUNTIME_EVENT, "openlineage": OPENLINEAGE_EVENT, "dataframe": DATAFRAME_EVENT}
