"""Tests of facet validation in batches: one error per malformed facet, independent of the others."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from random import Random

import pytest

from clew.events.validation import DATASET_FACET_SPECS, JOB_FACET_SPECS, RUN_FACET_SPECS, FacetSpec
from clew.lake.facet_columns import FacetValidator, StringBuffer

BASE = '"_producer":"https://example.org/p","_schemaURL":"https://example.org/s.json"'
TIME = "2026-01-01T00:00:00Z"
SPECS = {"run": RUN_FACET_SPECS, "job": JOB_FACET_SPECS, "dataset": DATASET_FACET_SPECS}

VALID = {
    "run": {
        "parent": [
            '{"run":{"runId":"r"}}',
            '{"job":{"name":"j"},"run":{"facets":{},"runId":"r"}}',
            '{"_deleted":true}',
        ],
        "nominalTime": [f'{{"nominalStartTime":"{TIME}"}}', '{"nominalStartTime":"2026-01-01"}'],
        "errorMessage": ['{"message":"m","stackTrace":null}'],
        "tags": ['{"tags":[]}', "{}"],
        "own": ['{"tags":7}', '{"fields":7}'],
        # A standard facet of datasets, a custom facet here.
        "schema": ['{"fields":7}'],
    },
    "job": {
        "jobType": ['{"integration":"SPARK"}', '{"processingType":null,"jobType":"QUERY"}'],
        "sourceCodeLocation": ['{"type":"git","url":"u"}', '{"repoUrl":"r"}'],
        "documentation": ['{"description":""}'],
        "ownership": ['{"owners":[7]}', '{"owners":null}'],
        "lineage": ['{"entries":[]}'],
    },
    "dataset": {
        "schema": [f'{{{BASE},"fields":[]}}', '{ "fields" : [7] }', "{}", '{"a":{},"fields":[]}', '{"fields":null}'],
        "symlinks": ['{"identifiers":[]}'],
        "lifecycleStateChange": ['{"lifecycleStateChange":"DROP"}'],
        "version": ['{"datasetVersion":"1"}'],
        "columnLineage": [f'{{{BASE},"fields":{{}}}}', '{"dataset":[]}', '{"fields":null,"dataset":[]}'],
        "lineage": ['{"inputs":[]}', '{"fields":{}}', "{}"],
        "documentation": ['{"description":"d"}'],
        "dataQualityMetrics": ['{"rowCount":7}', '{"columnMetrics":{"rowCount":{}},"rowCount":0}', "{}"],
        "outputStatistics": ['{"size":7,"rowCount":-1}', '{"rowCount":null}'],
    },
}
MALFORMED = {
    "run": {
        "parent": [
            ("{}", "missing:run.runId"),
            ('{"run":7}', "missing:run.runId"),
            ('{"run":{"runId":null}}', "missing:run.runId"),
            ('{"job":{"run":{"runId":"r"}},"run":{"runId":7}}', "not_a_string:run.runId"),
            ("null", "null"),
        ],
        "nominalTime": [
            ('{"nominalStartTime":"soon"}', "not_a_timestamp:nominalStartTime"),
            ('{"nominalStartTime":7}', "not_a_timestamp:nominalStartTime"),
            ('{"nominalEndTime":"2026-01-01"}', "missing:nominalStartTime"),
        ],
        "errorMessage": [('{"message":{}}', "not_a_string:message")],
        "tags": [('{"tags":{}}', "not_a_list:tags")],
        "own": [("7", "not_an_object")],
    },
    "job": {
        "jobType": [("{}", "missing:processingType"), ('{"jobType":7}', "not_a_string:jobType")],
        "sourceCodeLocation": [('{"type":"git"}', "missing:url")],
        "documentation": [('{"description":7,"_deleted":false}', "not_a_string:description")],
        "ownership": [('{"owners":"me"}', "not_a_list:owners")],
        "lineage": [("{}", "missing:entries"), ('{"entries":{}}', "not_a_list:entries")],
    },
    "dataset": {
        "schema": [
            (f'{{{BASE},"fields":7}}', "not_a_list:fields"),
            ('{"a":{"fields":[]},"fields":{}}', "not_a_list:fields"),
            ('{"a":"\\",\\"fields\\":[","fields":"b"}', "not_a_list:fields"),
        ],
        "symlinks": [('{"identifiers":{}}', "not_a_list:identifiers")],
        "lifecycleStateChange": [("{}", "missing:lifecycleStateChange")],
        "version": [('{"datasetVersion":2}', "not_a_string:datasetVersion")],
        "columnLineage": [(f'{{{BASE},"fields":[]}}', "not_an_object:fields"), ("{}", "missing:fields")],
        "lineage": [('{"inputs":{}}', "not_a_list:inputs"), ('{"fields":[]}', "not_an_object:fields")],
        "documentation": [("{}", "missing:description")],
        "dataQualityMetrics": [('{"rowCount":"7"}', "not_a_number:rowCount")],
        "outputStatistics": [('{"rowCount":true}', "not_a_number:rowCount"), ("[]", "not_an_object")],
    },
}
CASES = [
    *((kind, name, facet, None) for kind in VALID for name, all_ in VALID[kind].items() for facet in all_),
    *((kind, name, *case) for kind in MALFORMED for name, cases in MALFORMED[kind].items() for case in cases),
]


def find_errors(rows: list[tuple[str, str]], specs: Mapping[str, FacetSpec]) -> list[str | None]:
    names, facets = zip(*rows, strict=True)
    errors: list[str | None] = (
        FacetValidator(specs).find_errors(names, StringBuffer([facet.encode() for facet in facets])).to_pylist()
    )
    return errors


@pytest.mark.parametrize(("kind", "name", "facet", "error"), CASES)
def test_single_facet(kind: str, name: str, facet: str, error: str | None) -> None:
    assert find_errors([(name, facet)], SPECS[kind]) == [error]


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("seed", range(5))
def test_mixed_facets(kind: str, seed: int) -> None:
    cases = [case[1:] for case in CASES if case[0] == kind]
    sample = Random(seed).choices(cases, k=300)
    errors = find_errors([(name, facet) for name, facet, _ in sample], SPECS[kind])
    assert errors == [error for *_, error in sample]


def test_facets_with_distinct_prefixes() -> None:
    rows = [
        ("schema", f'{{"_producer":"{number}","fields":{"7" if number % 5 == 0 else "[]"}}}') for number in range(99)
    ]
    expected = ["not_a_list:fields" if number % 5 == 0 else None for number in range(99)]
    assert find_errors(rows, DATASET_FACET_SPECS) == expected


def test_every_standard_facet_has_a_malformed_case() -> None:
    covered_elsewhere = {("job", "tags"), ("dataset", "tags"), ("dataset", "ownership")}
    statistics = {("dataset", "columnMetrics"), ("dataset", "inputStatistics")}
    standard = {(kind, name) for kind, specs in SPECS.items() for name in specs}
    assert standard - covered_elsewhere - statistics == {case[:2] for case in CASES if case[3]} - {("run", "own")}


def test_no_facets_have_no_errors() -> None:
    assert FacetValidator(RUN_FACET_SPECS).find_errors([], StringBuffer([])).to_pylist() == []


def test_validator_is_reusable_across_batches() -> None:
    validator = FacetValidator(RUN_FACET_SPECS)
    valid, malformed = '{"run":{"runId":"r"}}', '{"run":{"runId":7}}'
    batches = [[valid], [valid, malformed], [malformed, valid]]
    errors = [
        validator.find_errors(["parent"] * len(batch), StringBuffer(list(map(str.encode, batch)))).to_pylist()
        for batch in batches
    ]
    assert errors == [[None], [None, "not_a_string:run.runId"], ["not_a_string:run.runId", None]]


def test_long_prefixes_are_not_cached() -> None:
    validator = FacetValidator(RUN_FACET_SPECS)
    for letter in "abcd":
        facet = f'{{"about":"{letter * 1_000_000}","tags":[]}}'
        assert validator.find_errors(["tags"], StringBuffer([facet.encode()])).to_pylist() == [None]
    assert max(map(len, chain.from_iterable(validator._valid_prefixes.values())), default=0) < 10_000
