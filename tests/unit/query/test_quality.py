"""Tests of data quality: results of tests in both kinds of facets, metrics, and reads and writes of one run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.runs import describe_run, list_job_runs
from clew.query.model import DatasetName, Field
from clew.query.pages.entities import build_dataset_view
from clew.query.pages.lists import EntityName
from clew.query.quality import QualityCounts, compute_drift, diff_columns, load_run_assertions, parse_quality_metrics


def assertions(**results: Any) -> dict[str, Any]:
    """Return the facet with one test per name."""
    items = [{"assertion": name, "column": "id", "success": success} for name, success in results.items()]
    return {"dataQualityAssertions": {"assertions": items}}


def check(
    scenario: Any, job: str = "check", *, kind: str = "COMPLETE", run: str | None = None, **placements: Any
) -> str:
    """Add a run that reads `orders`, with facets by placement: `facets`, `inputFacets` or `outputFacets`."""
    run_id: str = scenario.run(job, "orders", kind=kind, run=run)
    scenario.events[-1]["inputs"][0].update(placements)
    return run_id


def results(index: IndexReader, run_id: str) -> dict[str, bool | None]:
    return {item.assertion: item.success for item in describe_run(index, run_id).assertions}


def dataset_results(index: IndexReader, name: str = "orders") -> dict[str, bool | None]:
    return {item.assertion: item.success for item in describe_dataset(index, ("db", name)).assertions}


@pytest.mark.parametrize("placement", ["facets", "inputFacets", "outputFacets"])
def test_results_are_found_in_every_kind_of_facets(placement: str, scenario: Any, resources: QueryResources) -> None:
    facets: dict[str, Any] = {placement: assertions(unique=False, not_null=True)}
    run_id = check(scenario, **facets)
    scenario.index_events()
    with resources.reader() as index:
        assert results(index, run_id) == dataset_results(index) == {"unique": False, "not_null": True}
        (run,) = list_job_runs(index, "recent", None, 10)
    assert run.tests == QualityCounts(failed=1, passed=1, total=2)
    assert str(run.tests) == "1 of 2 failed"


@pytest.mark.parametrize(
    ("counts", "text"), [((2, 2, 5), "2 of 5 failed"), ((0, 5, 5), "5 passed"), ((0, 4, 5), "4 of 5 passed")]
)
def test_counts_as_text(counts: tuple[int, int, int], text: str) -> None:
    assert str(QualityCounts(*counts)) == text


def test_results_in_both_kinds_of_facets_count_once(scenario: Any, resources: QueryResources) -> None:
    both = assertions(unique=False, not_null=True)
    check(scenario, kind="START", run="r", facets=both, inputFacets=both)
    run_id = check(scenario, run="r", facets=both, inputFacets=both)
    scenario.index_events()
    with resources.reader() as index:
        assert QualityCounts.of(load_run_assertions(index, [run_id])[run_id]) == QualityCounts(
            failed=1, passed=1, total=2
        )
        assert len(describe_dataset(index, ("db", "orders")).assertions) == 2


def test_later_facet_of_a_run_replaces_the_earlier_one(scenario: Any, resources: QueryResources) -> None:
    check(scenario, kind="START", run="r", inputFacets=assertions(unique=False, not_null=False))
    run_id = check(scenario, run="r", inputFacets=assertions(unique=True))
    scenario.index_events()
    with resources.reader() as index:
        assert results(index, run_id) == {"unique": True}


def test_facets_of_other_kinds_are_added_and_the_latest_result_counts(scenario: Any, resources: QueryResources) -> None:
    check(scenario, kind="START", run="r", facets=assertions(unique=False, fresh=True))
    run_id = check(scenario, run="r", inputFacets=assertions(unique=True, not_null=False))
    scenario.index_events()
    with resources.reader() as index:
        assert results(index, run_id) == {"not_null": False, "unique": True, "fresh": True}


@pytest.mark.parametrize("facet", [{"_deleted": True}, None, "text", [], {"assertions": 7}, {"assertions": [None]}])
def test_deleted_and_malformed_facets_have_no_results(facet: object, scenario: Any, resources: QueryResources) -> None:
    check(scenario, kind="START", run="r", inputFacets=assertions(unique=False))
    run_id = check(scenario, run="r", inputFacets={"dataQualityAssertions": facet})
    scenario.index_events()
    with resources.reader() as index:
        assert results(index, run_id) == dataset_results(index) == {}
        assert load_run_assertions(index, [run_id]) == {}


def test_dataset_has_the_last_results_of_each_job(scenario: Any, resources: QueryResources) -> None:
    check(scenario, inputFacets=assertions(unique=False, not_null=False))
    check(scenario, "nightly", inputFacets=assertions(fresh=False))
    check(scenario, inputFacets=assertions(unique=True))
    scenario.dataset("orders", **assertions(row_count=True))
    scenario.index_events()
    with resources.reader() as index:
        assert dataset_results(index) == {"fresh": False, "unique": True, "row_count": True}


def test_results_of_aliases_belong_to_the_dataset(scenario: Any, resources: QueryResources) -> None:
    check(scenario, inputFacets=assertions(unique=False))
    scenario.symlink("shop.orders", "orders")
    scenario.index_events()
    with resources.reader() as index:
        assert dataset_results(index, "shop.orders") == {"unique": False}


def test_input_facets_of_a_dataset_are_those_of_its_last_reads(scenario: Any, resources: QueryResources) -> None:
    metrics = {"dataQualityMetrics": {"rowCount": 1}}
    check(scenario, facets={**metrics, "documentation": {"description": "orders"}}, inputFacets=metrics)
    check(scenario, inputFacets={"dataQualityMetrics": {"rowCount": 2}})
    check(scenario, "other", inputFacets=assertions(unique=True))
    scenario.index_events()
    with resources.reader() as index:
        dataset = describe_dataset(index, ("db", "orders"))
    facets = {name: msgspec.json.decode(facet) for name, facet in dataset.input_facets.items()}
    assert facets == {"dataQualityMetrics": {"rowCount": 2}, **assertions(unique=True)}


def test_output_facets_of_a_dataset_are_those_of_its_last_writes(scenario: Any, resources: QueryResources) -> None:
    for job, rows in (("load", 1), ("load", 2), ("append", 3)):
        scenario.run(job, "raw", "orders")
        facets = {"outputStatistics": {"rowCount": rows}, f"acme_{job}": {"batch": rows}}
        scenario.events[-1]["outputs"][0]["outputFacets"] = facets
    check(scenario, inputFacets=assertions(unique=True))
    scenario.index_events()
    with resources.reader() as index:
        dataset, other = describe_dataset(index, ("db", "orders")), describe_dataset(index, ("db", "raw"))
        view = build_dataset_view(index, EntityName("db", "orders"))
    facets = {name: msgspec.json.decode(facet) for name, facet in dataset.output_facets.items()}
    assert facets == {"outputStatistics": {"rowCount": 3}, "acme_load": {"batch": 2}, "acme_append": {"batch": 3}}
    assert (view.output_facets, other.output_facets) == (dataset.output_facets, {})
    assert set(dataset.input_facets) == {"dataQualityAssertions"}


@pytest.mark.parametrize("placement", ["facets", "inputFacets"])
def test_drift_has_metrics_and_tests_of_each_run(placement: str, scenario: Any, resources: QueryResources) -> None:
    for nulls in (0, 5):
        column = {"nullCount": nulls, "sum": 100, "quantiles": {"0.5": 10}}
        metrics = {"rowCount": 25, "bytes": 2048, "columnMetrics": {"price": column, "flawed": 7}}
        facets: dict[str, Any] = {placement: {"dataQualityMetrics": metrics, **assertions(unique=not nulls)}}
        check(scenario, **facets)
        scenario.index_events()
    with resources.reader() as index:
        drift = compute_drift(index, DatasetName("db", "orders"))
    newest = drift.runs[0]
    assert (newest.row_count, newest.bytes, newest.tests) == (25, 2048, QualityCounts(failed=1, passed=0, total=1))
    assert (newest.metrics["price"].average, newest.metrics["price"].quantiles) == (5.0, {"0.5": 10})
    assert [item.success for item in drift.assertions] == [False]


def test_read_without_and_with_version_is_one(scenario: Any, resources: QueryResources) -> None:
    check(scenario, kind="START", run="r", inputFacets={"dataQualityMetrics": {"rowCount": 3}})
    run_id = check(scenario, run="r", facets={"version": {"datasetVersion": "7"}}, inputFacets=assertions(unique=True))
    scenario.index_events()
    with resources.reader() as index:
        (read,) = describe_run(index, run_id, with_io_facets=True).inputs
        assert (read.version, read.row_count, set(read.facets)) == (
            *("7", 3),
            {"dataQualityMetrics", "dataQualityAssertions"},
        )
        assert len(compute_drift(index, DatasetName("db", "orders")).runs) == 1


def test_facets_without_a_version_are_those_of_the_dataset(scenario: Any, resources: QueryResources) -> None:
    def write(kind: str, **facets: Any) -> None:
        scenario.run("load", "", "orders", kind=kind, run="r", dataset_facets={"orders": facets})

    write("START", documentation={"description": "old"}, dataSource={"name": "warehouse"})
    write("COMPLETE", version={"datasetVersion": "7"}, documentation={"description": "new"})
    write("RUNNING", ownership={"owners": [{"name": "eve"}]})
    scenario.index_events()
    with resources.reader() as index:
        dataset = describe_dataset(index, ("db", "orders"))
    assert set(dataset.facets) == {"dataSource", "version", "documentation", "ownership"}
    assert dataset.description == "new"


@pytest.mark.parametrize(
    ("facet", "expected"),
    [
        (b'{"rowCount": 3, "bytes": 5.0, "fileCount": "2"}', (3, 5, 2, {})),
        (b'{"rowCount": "many", "size": 9, "columnMetrics": []}', (None, 9, None, {})),
        (
            b'{"rowCount": true, "columnMetrics": {"a": {"nullCount": 1.5, "min": null}}}',
            (None, None, None, {"a": {}}),
        ),
        (
            b'{"columnMetrics": {"a": {"min": "2026-01-01", "max": 3}}}',
            (None, None, None, {"a": {"min": "2026-01-01", "max": 3}}),
        ),
        (
            b'{"columnMetrics": {"a": {"sum": 9, "count": 3}}}',
            (None, None, None, {"a": {"sum": 9, "count": 3, "average": 3.0}}),
        ),
        (
            b'{"columnMetrics": {"a": {"quantiles": {"0.5": 1, "0.9": "x"}}}}',
            (None, None, None, {"a": {"quantiles": {"0.5": 1}}}),
        ),
        (b'{"_deleted": true, "rowCount": 3}', (None, None, None, {})),
        (b"7", (None, None, None, {})),
        (None, (None, None, None, {})),
    ],
)
def test_metrics_without_malformed_values(facet: bytes | None, expected: tuple[object, ...]) -> None:
    metrics = parse_quality_metrics(facet)
    assert (metrics.row_count, metrics.bytes, metrics.file_count, msgspec.to_builtins(metrics.columns)) == expected


def test_an_unknown_type_is_not_a_change() -> None:
    known, unknown, other = ((Field("price", kind),) for kind in ("int", None, "float"))
    assert diff_columns(known, unknown) is None
    assert diff_columns(unknown, known) is None
    diff = diff_columns(known, (*other, Field("tax", "int")))
    assert diff is not None
    assert (diff.added, diff.removed, list(map(str, diff.retyped))) == (("tax",), (), ["price: int → float"])
