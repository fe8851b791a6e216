"""Tests of the schemas of all standard facets: a valid facet, and every change that makes it invalid."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clew.capture.emit import facets as emitted
from clew.events.streams import Stream
from clew.events.validation import SCHEMA_FILES, OpenLineageSpec, load_schema

TIME = "2026-11-15T14:02:11Z"
URL = "https://example.com/x"
RUN = {"runId": "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"}
NAME = {"namespace": "n", "name": "x"}
ASKED = {"_producer": URL, "_schemaURL": URL}
COUNTS = {"rowCount": 1, "size": 2, "fileCount": 3}
METRICS = {
    "rowCount": 4,
    "bytes": 5,
    "fileCount": 1,
    "lastUpdated": TIME,
    "columnMetrics": {
        "c": {
            "nullCount": 0,
            "distinctCount": 1,
            "sum": 1.5,
            "count": 2,
            "min": 0.5,
            "max": 1.0,
            "quantiles": {"0.5": 1},
        }
    },
}
CHECK = {
    "severity": "error",
    "name": "t",
    "description": "d",
    "expected": "1",
    "actual": "2",
    "content": "c",
    "contentType": "text",
    "params": {},
}
TAGS = {"tags": [{"key": "k", "value": "v", "source": "s"}]}
DOCUMENTATION = {"description": "d", "contentType": "text/plain"}
OWNERSHIP = {"owners": [{"name": "o", "type": "t"}]}
TRANSFORMATIONS = [{"type": "DIRECT", "subtype": "IDENTITY", "description": "d", "masking": False}]
INPUT_FIELD = {**NAME, "field": "c", "transformations": TRANSFORMATIONS}
LINEAGE_INPUT = {**NAME, "type": "DATASET", "field": "c", "transformations": TRANSFORMATIONS}
CONDITION = {
    "type": "compare",
    "comparison": "EQUAL",
    "left": {"type": "field", "field": "c"},
    "right": {"type": "literal", "value": "1"},
}
PARENT = {"run": RUN, "job": NAME}


class Case(NamedTuple):
    """A valid facet of an entity, and its required members."""

    entity: str
    name: str
    facet: dict[str, Any]
    required: str = ""


CASES = [
    Case("run", "nominalTime", {"nominalStartTime": TIME, "nominalEndTime": TIME}, "nominalStartTime"),
    Case(
        "run",
        "parent",
        {**PARENT, "root": PARENT},
        "run run.runId job job.namespace job.name root.run root.run.runId root.job root.job.namespace root.job.name",
    ),
    Case(
        "run",
        "errorMessage",
        {"message": "m", "programmingLanguage": "python", "stackTrace": "s"},
        "message programmingLanguage",
    ),
    Case("run", "processing_engine", {"version": "1", "name": "spark", "openlineageAdapterVersion": "1"}, "version"),
    Case("run", "externalQuery", {"externalQueryId": "q", "source": "s"}, "externalQueryId source"),
    Case(
        "run",
        "extractionError",
        {
            "totalTasks": 1,
            "failedTasks": 1,
            "errors": [{"errorMessage": "e", "stackTrace": "s", "task": "t", "taskNumber": 1}],
        },
        "totalTasks failedTasks errors errors.0.errorMessage",
    ),
    Case(
        "run",
        "environmentVariables",
        {"environmentVariables": [{"name": "n", "value": "v"}]},
        "environmentVariables environmentVariables.0.name environmentVariables.0.value",
    ),
    Case(
        "run",
        "executionParameters",
        {"parameters": [{"key": "k", "name": "n", "description": "d", "value": "v"}]},
        "parameters.0.key",
    ),
    Case(
        "run",
        "jobDependencies",
        {
            "upstream": [
                {
                    "job": NAME,
                    "run": RUN,
                    "dependency_type": "d",
                    "sequence_trigger_rule": "s",
                    "status_trigger_rule": "t",
                }
            ],
            "downstream": [{"job": NAME}],
            "trigger_rule": "r",
        },
        "upstream.0.job upstream.0.job.namespace upstream.0.job.name upstream.0.run.runId downstream.0.job",
    ),
    Case(
        "run",
        "test",
        {"tests": [{"status": "pass", "type": "t", **CHECK}]},
        "tests tests.0.name tests.0.status",
    ),
    Case("run", "tags", TAGS, "tags.0.key tags.0.value"),
    Case(
        "run",
        "marimo_execution",
        {"executionId": "3731cb9b", "sessionId": "60908ddd", "cellId": "a", "operationCode": "df.head()"},
        "sessionId",
    ),
    Case("run", "marimo_performance", {"durationMs": 4.13, "overheadMs": 0.1}, "durationMs"),
    Case(
        "job",
        "jobType",
        {
            "processingType": "BATCH",
            "integration": "SPARK",
            "jobType": "JOB",
            "emissionPattern": {"eventTrigger": "t", "eventContentMode": "m", "windowDuration": 1},
        },
        "processingType integration emissionPattern.eventTrigger emissionPattern.eventContentMode",
    ),
    Case("job", "sourceCode", {"language": "python", "sourceCode": "x"}, "language sourceCode"),
    Case(
        "job",
        "sourceCodeLocation",
        {
            "type": "git",
            "url": URL,
            "repoUrl": URL,
            "path": "p",
            "version": "v",
            "tag": "t",
            "branch": "b",
            "pullRequestNumber": "1",
        },
        "type url",
    ),
    Case("job", "sql", {"query": "select 1", "dialect": "ansi"}, "query"),
    Case("job", "documentation", DOCUMENTATION, "description"),
    Case("job", "ownership", OWNERSHIP, "owners.0.name"),
    Case("job", "tags", TAGS, "tags.0.key tags.0.value"),
    Case(
        "job",
        "lineage",
        {
            "entries": [
                {**NAME, "type": "DATASET", "inputs": [LINEAGE_INPUT], "fields": {"c": {"inputs": [LINEAGE_INPUT]}}}
            ]
        },
        "entries entries.0.namespace entries.0.name entries.0.type entries.0.inputs.0.name entries.0.fields.c.inputs",
    ),
    Case(
        "dataset",
        "schema",
        {
            "fields": [
                {"name": "c", "type": "int", "description": "d", "ordinal_position": 1, "fields": [{"name": "inner"}]}
            ]
        },
        "fields.0.name fields.0.fields.0.name",
    ),
    Case("dataset", "dataSource", {"name": "db", "uri": URL}),
    Case(
        "dataset",
        "lifecycleStateChange",
        {"lifecycleStateChange": "RENAME", "previousIdentifier": NAME},
        "lifecycleStateChange previousIdentifier.namespace previousIdentifier.name",
    ),
    Case("dataset", "version", {"datasetVersion": "1"}, "datasetVersion"),
    Case(
        "dataset",
        "columnLineage",
        {
            "fields": {
                "c": {"inputFields": [INPUT_FIELD], "transformationDescription": "d", "transformationType": "IDENTITY"}
            },
            "dataset": [INPUT_FIELD],
        },
        "fields fields.c.inputFields fields.c.inputFields.0.namespace fields.c.inputFields.0.name "
        "fields.c.inputFields.0.field fields.c.inputFields.0.transformations.0.type dataset.0.field",
    ),
    Case(
        "dataset",
        "catalog",
        {
            "framework": "iceberg",
            "type": "hive",
            "name": "c",
            "metadataUri": URL,
            "warehouseUri": URL,
            "source": "spark",
            "catalogProperties": {"a": "b"},
        },
        "framework type name",
    ),
    Case("dataset", "datasetType", {"datasetType": "TABLE", "subType": "VIEW"}, "datasetType"),
    Case(
        "dataset",
        "hierarchy",
        {"hierarchy": [{"type": "DATABASE", "name": "d"}]},
        "hierarchy hierarchy.0.type hierarchy.0.name",
    ),
    Case("dataset", "storage", {"storageLayer": "delta", "fileFormat": "parquet"}, "storageLayer"),
    Case(
        "dataset",
        "symlinks",
        {"identifiers": [{**NAME, "type": "TABLE"}]},
        "identifiers.0.namespace identifiers.0.name identifiers.0.type",
    ),
    Case("dataset", "documentation", DOCUMENTATION, "description"),
    Case("dataset", "ownership", OWNERSHIP, "owners.0.name"),
    Case("dataset", "tags", {"tags": [{**TAGS["tags"][0], "field": "c"}]}, "tags.0.key tags.0.value"),
    Case(
        "dataset",
        "lineage",
        {"inputs": [LINEAGE_INPUT], "fields": {"c": {"inputs": [{"type": "JOB", **RUN}]}}},
        "inputs.0.namespace inputs.0.name inputs.0.type fields.c.inputs fields.c.inputs.0.type",
    ),
    Case("dataset", "dataQualityMetrics", METRICS, "columnMetrics"),
    Case("input", "dataQualityMetrics", METRICS, "columnMetrics"),
    Case(
        "input",
        "dataQualityAssertions",
        {"assertions": [{"assertion": "not_null", "success": True, "column": "c", **CHECK}]},
        "assertions assertions.0.assertion assertions.0.success",
    ),
    Case("input", "inputStatistics", COUNTS),
    Case(
        "input",
        "subset",
        {"inputCondition": {"type": "binary", "operator": "AND", "left": CONDITION, "right": CONDITION}},
        "inputCondition inputCondition.type inputCondition.operator inputCondition.left inputCondition.left.comparison",
    ),
    Case("output", "outputStatistics", COUNTS),
    Case(
        "output",
        "subset",
        {"outputCondition": {"type": "partition", "partitions": [{"identifier": "i", "dimensions": {"d": "1"}}]}},
        "outputCondition outputCondition.partitions outputCondition.partitions.0.dimensions",
    ),
]
IDS = [f"{case.entity} {case.name}" for case in CASES]
# Members that may have any value, by the last step of their path.
UNTYPED = {"d"}


def make_event(case: Case, facet: Any) -> dict[str, Any]:
    facets = {case.name: {**ASKED, **facet} if isinstance(facet, dict) else facet}
    output = {**NAME, "facets": facets if case.entity == "dataset" else {}}
    return {
        "eventTime": TIME,
        "producer": URL,
        "schemaURL": URL,
        "run": {**RUN, "facets": facets if case.entity == "run" else {}},
        "job": {**NAME, "facets": facets if case.entity == "job" else {}},
        "inputs": [{**NAME, "inputFacets": facets}] if case.entity == "input" else [],
        "outputs": [{**output, "outputFacets": facets if case.entity == "output" else {}}],
    }


def paths(value: Any, prefix: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for key, member in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield (*prefix, key)
        yield from paths(member, (*prefix, key))


def changed(facet: dict[str, Any], path: tuple[str | int, ...], *value: Any) -> dict[str, Any]:
    """Return a copy with another value at the path, or without the member."""
    result: Any = copy.deepcopy(facet)
    parent = result
    for step in path[:-1]:
        parent = parent[step]
    if value:
        parent[path[-1]] = value[0]
    else:
        del parent[path[-1]]
    return dict(result)


def mutations(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the facet with each member of a wrong type, and without each required member."""
    for path in paths(case.facet):
        if path[-1] not in UNTYPED:
            value: Any = case.facet
            for step in path:
                value = value[step]
            yield changed(case.facet, path, "wrong" if isinstance(value, int | float) else 7)
            if isinstance(value, dict | list):
                yield changed(case.facet, path, "wrong")
    for required in case.required.split():
        yield changed(case.facet, tuple(int(step) if step.isdigit() else step for step in required.split(".")))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_valid_facet_has_no_violations(case: Case) -> None:
    assert OpenLineageSpec.core().violations(make_event(case, case.facet)) == []


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_wrong_types_and_missing_members_are_violations(case: Case) -> None:
    wrong = list(mutations(case))
    assert len(wrong) >= len(case.facet)
    assert [facet for facet in wrong if not OpenLineageSpec.core().violations(make_event(case, facet))] == []


@pytest.mark.parametrize("value", [None, 7, "text", [], True])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_facet_is_an_object(case: Case, value: Any) -> None:
    assert OpenLineageSpec.core().violations(make_event(case, value))


def test_every_described_facet_has_a_case() -> None:
    groups = {"run": "runFacets", "job": "jobFacets", "dataset": "datasetFacets"}
    groups |= {"input": "inputFacets", "output": "outputFacets"}
    described = load_schema(SCHEMA_FILES[Stream.OPENLINEAGE])["$defs"]
    assert {(entity, name) for entity, group in groups.items() for name in described[group]["properties"]} == {
        case[:2] for case in CASES
    }


def test_every_facet_of_the_official_spec_is_described(shared: Path) -> None:
    schemas = [json.loads(file.read_text()) for file in (shared / "openlineage-spec" / "facets").glob("*.json")]
    assert len(schemas) > 30
    assert {key for schema in schemas for key in schema["properties"]} <= {case.name for case in CASES}


# The official schema of `lineage` accepts the form of a dataset for a job, too.
@pytest.mark.parametrize("case", [c for c in CASES if c[:2] != ("job", "lineage") and not c.name.startswith("marimo_")])
def test_mutations_are_violations_of_the_official_spec(case: Case, shared: Path) -> None:
    official = OpenLineageSpec.from_folder(shared / "openlineage-spec")
    assert official.violations(make_event(case, case.facet)) == []
    assert [facet for facet in mutations(case) if not official.violations(make_event(case, facet))] == []
    for path in paths(case.facet):
        event = make_event(case, changed(case.facet, path))
        assert bool(official.violations(event)) == bool(OpenLineageSpec.core().violations(event)), path


@pytest.mark.parametrize(
    ("name", "url"),
    [("MarimoExecutionRunFacet", emitted._EXECUTION), ("MarimoPerformanceRunFacet", emitted._PERFORMANCE)],
)
def test_custom_facets_have_a_schema_of_their_own(name: str, url: str) -> None:
    schema = load_schema(f"{name}.json")
    assert url == f"{schema['$id']}#/$defs/{name}"
    _, own = schema["$defs"][name]["allOf"]
    assert own == load_schema(SCHEMA_FILES[Stream.OPENLINEAGE])["$defs"][name]
