"""Tests of lint warnings about events that are valid by schema."""

from __future__ import annotations

from typing import Any

import pytest

from clew.events.validation import CanonicalUrlCheck, RunPairingCheck, lint_event

RUN = "0190c5b4-8f3e-4f4c-9a2b-0a1b2c3d4e5f"
SPEC = "https://openlineage.io/spec/facets/1-0-0/X.json"
SCHEMAS = "https://github.com/acme/lineage"


def lint(event: dict[str, Any]) -> list[tuple[str, str]]:
    return [(rule, path) for rule, path, _ in lint_event(event)]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"run": {"runId": RUN}}, []),
        ({"run": {"runId": "nightly-7"}}, [("run-id", "/run/runId")]),
        ({"run": {"facets": {"parent": {}, "acme_cost": {}}}}, []),
        ({"run": {"facets": {"cost": {}}}}, [("facet-prefix", "/run/facets/cost")]),
        ({"inputs": [{}, {"inputFacets": {"seen": 1}}]}, [("facet-prefix", "/inputs/1/inputFacets/seen")]),
        ({"dataset": {"facets": {"columnMetrics": {}}}, "run": {"facets": {"processing_engine": {}}}}, []),
        (
            {"job": {"facets": {"sql": {"_schemaURL": f"{SCHEMAS}/blob/main/sql.json#/$defs/SQLJobFacet"}}}},
            [("schema-url", "/job/facets/sql/_schemaURL")],
        ),
        ({"schemaURL": f"{SCHEMAS}/blob/master/OpenLineage.json"}, [("schema-url", "/schemaURL")]),
        ({"run": [], "job": "x", "inputs": {}, "outputs": [3], "schemaURL": 7}, []),
    ],
)
def test_lint_event(event: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert lint(event) == expected


@pytest.mark.parametrize(
    ("document", "has_version"),
    [
        ("https://example.com/schemas/v2/x.json", True),
        ("https://example.com/schemas/x-1.2.json", True),
        (f"{SCHEMAS}/blob/9f1c2ab/x.json", True),
        (f"{SCHEMAS}/blob/refs/tags/stable/x.json", True),
        ("https://example.com/0/x.json", True),
        ("https://example.com/x.json", False),
        ("https://1.2.example.com/x.json", False),
        ("https://example.com/main/x.json", False),
    ],
)
def test_the_schema_of_a_custom_facet_has_a_version(document: str, has_version: bool) -> None:
    event = custom("acme_cost", f"{document}#/$defs/AcmeCostJobFacet")
    assert lint(event) == ([] if has_version else [("schema-url", "/job/facets/acme_cost/_schemaURL")])


@pytest.mark.parametrize(
    ("url", "is_on_branch"),
    [
        (SPEC, False),
        (f"{SCHEMAS}/blob/main/x.json", True),
        (f"{SCHEMAS}/tree/develop/x.json", True),
        (f"{SCHEMAS}/blob/refs/heads/1.2.3/x.json", True),
        (f"{SCHEMAS}/blob/refs/tags/stable/x.json", False),
        (f"{SCHEMAS}/blob/v1/x.json", False),
        (f"{SCHEMAS}/blob/release-1.2/x.json", False),
        (f"{SCHEMAS}/blob/9f1c2ab/x.json", False),
        ("https://raw.githubusercontent.com/acme/lineage/main/x.json", True),
        ("https://raw.githubusercontent.com/acme/lineage/1.54.0/x.json", False),
        ("https://gitlab.example.com/acme/lineage/-/raw/main/x.json", True),
        ("https://example.com/main/x.json", True),
        ("https://example.com/schemas/latest/x.json", True),
        ("https://example.com/mainframe/1-0-0/x.json", False),
    ],
)
def test_warns_about_schema_urls_on_a_branch(url: str, is_on_branch: bool) -> None:
    assert bool(lint({"schemaURL": url})) is is_on_branch


BIG_QUERY = f"{SCHEMAS}/blob/v1.0.0/facets.json#/$defs/BigQueryStatisticsJobFacet"


def custom(name: str, url: str, *, owner: str = "job", kind: str = "facets") -> dict[str, Any]:
    entity = {kind: {name: {"_schemaURL": url}}}
    return {owner: [entity] if owner == "inputs" else entity}


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        (custom("bigQuery_statistics", BIG_QUERY), []),
        (custom("acme_cost_center", f"{SPEC}#/$defs/AcmeCostCenterRunFacet", owner="run"), []),
        (custom("acme_rows", f"{SPEC}#/$defs/AcmeRowsInputDatasetFacet", owner="inputs", kind="inputFacets"), []),
        (custom("acme_rows", f"{SPEC}#/$defs/AcmeRowsDatasetFacet", owner="inputs", kind="inputFacets"), []),
        (custom("bigQuery_statistics", BIG_QUERY.partition("#")[0]), ["schema-pointer", "facet-name"]),
        (custom("bigQuery_statistics", f"{BIG_QUERY.partition('#')[0]}#"), ["schema-pointer", "facet-name"]),
        (custom("bigQuery_statistics", f"{SPEC}#BigQueryStatisticsJobFacet"), ["schema-pointer"]),
        (custom("bigQuery_statistics", BIG_QUERY, owner="run"), ["facet-name"]),
        (custom("bigQuery_statistics", BIG_QUERY.replace("BigQueryS", "bigQuery_s")), ["facet-name"]),
        (custom("bigQuery_statistics", BIG_QUERY.replace("JobFacet", "Facet")), ["facet-name"]),
        (custom("bigQuery_statistics", BIG_QUERY.replace("JobFacet", "Job")), ["facet-name"]),
        (custom("bigQuery_statistics", BIG_QUERY.replace("BigQuery", "")), ["facet-name"]),
        (custom("BigQuery_Statistics", BIG_QUERY), ["facet-key"]),
        (custom("big-query_statistics", f"{SPEC}#/$defs/Big-queryStatisticsJobFacet"), ["facet-key"]),
        (custom("bigQuery_", f"{SPEC}#/$defs/BigQueryJobFacet"), ["facet-key"]),
        (custom("statistics", BIG_QUERY), ["facet-prefix"]),
        (custom("sql", f"{SPEC}#/$defs/SQLJobFacet"), []),
        (custom("sql", SPEC), ["schema-pointer"]),
        (custom("sql", f"{SPEC}#/$defs/SQLJobFacet", owner="run"), ["facet-entity"]),
        (custom("schema", f"{SPEC}#/$defs/SchemaDatasetFacet", owner="job"), ["facet-entity"]),
        (custom("parent", f"{SPEC}#/$defs/ParentRunFacet", owner="inputs"), ["facet-entity"]),
        (custom("outputStatistics", f"{SPEC}#/$defs/X", owner="inputs", kind="inputFacets"), ["facet-entity"]),
        (custom("dataQualityMetrics", f"{SPEC}#/$defs/X", owner="inputs", kind="inputFacets"), []),
        (
            custom(
                "my_custom", "https://raw.githubusercontent.com/O/O/main/spec/OpenLineage.json#/$defs/MyCustomJobFacet"
            ),
            ["schema-url"],
        ),
    ],
)
def test_facet_naming_rules(event: dict[str, Any], rules: list[str]) -> None:
    assert [rule for rule, _ in lint(event)] == rules


@pytest.mark.parametrize(
    ("first", "second", "is_canonical"),
    [
        (BIG_QUERY, BIG_QUERY, True),
        (BIG_QUERY, BIG_QUERY.replace("v1.0.0", "v1.1.0"), True),
        (BIG_QUERY, BIG_QUERY.replace("https", "http"), False),
        (BIG_QUERY, BIG_QUERY.replace("$defs", "definitions"), False),
        (f"{SPEC}#/$defs/X", f"{SPEC.replace('openlineage.io', 'example.com')}#/$defs/X", False),
        ("https://example.com/x.json#/$defs/X", "https://example.com/y.json#/$defs/X", False),
    ],
)
def test_one_url_per_version_of_a_schema(first: str, second: str, is_canonical: bool) -> None:
    check = CanonicalUrlCheck()
    assert list(check.check(custom("acme_cost", first))) == []
    assert [(rule, path) for rule, path, _ in check.check(custom("acme_cost", second))] == (
        [] if is_canonical else [("schema-canonical", "/job/facets/acme_cost/_schemaURL")]
    )


@pytest.mark.parametrize(
    ("kinds", "missing"),
    [
        (["START", "COMPLETE"], []),
        (["COMPLETE", "START"], []),
        (["START", "RUNNING"], ["run-end"]),
        (["FAIL"], ["run-start"]),
        ([None, "OTHER"], ["run-start", "run-end"]),
    ],
)
def test_warns_about_runs_without_start_or_end(kinds: list[str | None], missing: list[str]) -> None:
    check = RunPairingCheck()
    check.add({"job": {}})
    for kind in kinds:
        check.add({"run": {"runId": RUN}, "eventType": kind})
    assert [(rule, path) for rule, path, _ in check.warnings()] == [(rule, RUN) for rule in missing]
