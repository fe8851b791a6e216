"""Tests of lineage graphs of Marquez's API."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, dataset, event, run_id

ORDERS, TOTALS = "postgres://db:5432:public.orders", "postgres://db:5432:public.totals"
LOAD, SUM, CHECK = "job:shop:daily.load", "job:shop:daily.sum", "job:shop:hourly.check"


def node_ids(response: Any) -> list[str]:
    return [node["id"] for node in response["graph"]]


@pytest.mark.parametrize(
    ("start", "depth", "expected"),
    [
        (LOAD, 0, [f"dataset:{ORDERS}", LOAD]),
        (LOAD, 1, [f"dataset:{ORDERS}", f"dataset:{TOTALS}", LOAD, SUM]),
        (LOAD, 20, [f"dataset:{ORDERS}", f"dataset:{TOTALS}", LOAD, SUM, CHECK]),
        (f"dataset:{TOTALS}", 0, [f"dataset:{ORDERS}", f"dataset:{TOTALS}", SUM, CHECK]),
        (f"dataset:{TOTALS}", 10**9, [f"dataset:{ORDERS}", f"dataset:{TOTALS}", LOAD, SUM, CHECK]),
        ("job:shop:daily", 20, ["job:shop:daily"]),
    ],
)
def test_depth_limits_the_graph(shared_shop: Shop, start: str, depth: int, expected: list[str]) -> None:
    assert node_ids(shared_shop.get("/lineage", nodeId=start, depth=depth)) == expected


def test_edges_follow_the_data_flow(shared_shop: Shop) -> None:
    graph = {node["id"]: node for node in shared_shop.get("/lineage", nodeId=SUM)["graph"]}
    assert graph[SUM]["inEdges"] == [{"origin": f"dataset:{ORDERS}", "destination": SUM}]
    assert graph[SUM]["outEdges"] == [{"origin": SUM, "destination": f"dataset:{TOTALS}"}]
    assert (graph[SUM]["type"], graph[SUM]["data"]["latestRun"]["id"]) == ("JOB", run_id("sum-1"))
    assert [field["name"] for field in graph[f"dataset:{TOTALS}"]["data"]["fields"]] == ["total"]


def test_terminates_on_a_cycle(empty_shop: Shop) -> None:
    a, b = dataset("a"), dataset("b")
    empty_shop.send(
        [
            event("COMPLETE", 1, "one", "forth", inputs=[a], outputs=[b]),
            event("COMPLETE", 2, "two", "back", inputs=[b], outputs=[a, b]),
            event("COMPLETE", 3, "three", "forth", inputs=[a], outputs=[b]),
        ]
    )
    graph = empty_shop.get("/lineage", nodeId="job:shop:back", depth=1000)
    assert node_ids(graph) == [
        "dataset:postgres://db:5432:a",
        "dataset:postgres://db:5432:b",
        "job:shop:back",
        "job:shop:forth",
    ]
    assert len(empty_shop.get("/runlineage/upstream", runId=run_id("three"), depth=1000)["runs"]) == 3


def test_a_run_read_the_write_before_it_if_a_version_is_written_again(empty_shop: Shop) -> None:
    frame = dataset("frame", facets={"version": {"datasetVersion": "1"}})
    empty_shop.send(
        [
            event("COMPLETE", 1, "write 1", "load", outputs=[frame]),
            event("COMPLETE", 2, "read 1", "sum", inputs=[frame], outputs=[dataset("total")]),
            event("COMPLETE", 3, "write 2", "load", outputs=[frame]),
        ]
    )
    runs = empty_shop.get("/runlineage/upstream", runId=run_id("read 1"))["runs"]
    assert [run["run"]["id"] for run in runs] == [run_id("read 1"), run_id("write 1")]
    (read,) = runs[0]["inputs"]
    assert read["producedByRunId"] == run_id("write 1")
    (written,) = empty_shop.get(f"/jobs/runs/{run_id('write 1')}")["outputDatasetVersions"]
    assert read["version"] == written["datasetVersionId"]["version"]


def test_a_cycle_of_symlinks_is_one_dataset(empty_shop: Shop) -> None:
    def link(name: str) -> dict[str, Any]:
        return {"symlinks": {"identifiers": [{"namespace": "postgres://db:5432", "name": name, "type": "TABLE"}]}}

    source, target = dataset("a", facets=link("b")), dataset("b", facets=link("a"))
    empty_shop.send([event("COMPLETE", 1, "one", "x", inputs=[source], outputs=[target])])
    assert node_ids(empty_shop.get("/lineage", nodeId="dataset:postgres://db:5432:b")) == [
        "dataset:postgres://db:5432:a",
        "job:shop:x",
    ]


def test_column_lineage_upstream_and_downstream(shared_shop: Shop) -> None:
    total, price = f"datasetField:{TOTALS}:total", f"datasetField:{ORDERS}:price"
    graph = shared_shop.get("/column-lineage", nodeId=total)["graph"]
    assert [node["id"] for node in graph] == [price, total]
    assert graph[1]["inEdges"] == [{"origin": total, "destination": price}]
    assert graph[0]["outEdges"] == [{"origin": price, "destination": total}]
    data = graph[1]["data"]
    assert (data["field"], data["fieldType"], data["inputFields"][0]["transformationType"]) == (
        "total",
        "int",
        "AGGREGATION",
    )
    assert node_ids(shared_shop.get("/column-lineage", nodeId=price)) == [price]
    assert node_ids(shared_shop.get("/column-lineage", nodeId=price, withDownstream="true")) == [price, total]
    assert node_ids(shared_shop.get("/column-lineage", nodeId=SUM)) == [price, total]
    assert node_ids(shared_shop.get("/column-lineage", nodeId=f"dataset:{TOTALS}")) == [price, total]
    version = shared_shop.get("/namespaces/postgres%3A%2F%2Fdb%3A5432/datasets/public.totals")["currentVersion"]
    assert node_ids(shared_shop.get("/column-lineage", nodeId=f"{total}#{version}")) == [price, total]
    shared_shop.get("/column-lineage", 404, nodeId=f"{total}#{run_id('none')}")


def test_column_lineage_of_a_dataset_without_columns_is_404(empty_shop: Shop) -> None:
    empty_shop.send([event("COMPLETE", 1, "one", outputs=[{"namespace": "n", "name": "plain"}])])
    assert empty_shop.get("/column-lineage", 404, nodeId="dataset:n:plain")["message"] == "Could not find node"


def test_a_negative_depth_is_the_node_alone(shared_shop: Shop) -> None:
    assert shared_shop.get("/lineage", nodeId=SUM, depth=-1) == shared_shop.get("/lineage", nodeId=SUM, depth=0)


def test_run_input_without_a_producer(empty_shop: Shop) -> None:
    empty_shop.send([event("COMPLETE", 1, "one", inputs=[dataset("from outside")])])
    (run,) = empty_shop.get("/runlineage/upstream", runId=run_id("one"))["runs"]
    assert run["inputs"] == [
        {"namespace": "postgres://db:5432", "name": "from outside", "version": None, "producedByRunId": None}
    ]


def test_nodes_match_a_reference_search(empty_shop: Shop) -> None:
    links = [(job, f"t{job * 7 % 23}", f"t{job * 5 % 29}") for job in range(40)]
    empty_shop.send(
        [
            event("COMPLETE", 1, f"run {job}", f"j{job}", inputs=[dataset(source)], outputs=[dataset(target)])
            for job, source, target in links
        ]
    )
    for depth in (0, 1, 3, 20):
        ids = node_ids(empty_shop.get("/lineage", nodeId="job:shop:j3", depth=depth))
        assert ids == sorted(reference_node_ids("j3", depth, links))


def reference_node_ids(start: str, depth: int, links: list[tuple[int, str, str]]) -> set[str]:
    uses: dict[str, set[str]] = {f"j{job}": {source, target} for job, source, target in links}
    used_by: defaultdict[str, set[str]] = defaultdict(set)
    for job, tables in uses.items():
        for table in tables:
            used_by[table].add(job)
    jobs = {start}
    for _ in range(depth):
        jobs |= {other for job in jobs for table in uses[job] for other in used_by[table]}
    tables = {table for job in jobs for table in uses[job]}
    return {f"job:shop:{job}" for job in jobs} | {f"dataset:postgres://db:5432:{table}" for table in tables}


def test_column_lineage_of_a_job_without_columns_is_404(shop: Shop) -> None:
    shop.send([event("COMPLETE", 20, "bare", "bare", outputs=[dataset("public.bare")])])
    assert shop.get("/column-lineage", 404, nodeId="job:shop:bare")["message"] == "Could not find node"
    assert shop.get("/column-lineage", nodeId="job:shop:daily.load")["graph"]
