"""Tests of the index of the query benchmarks."""

from __future__ import annotations

from pathlib import Path

from bench.large_index import COLUMNS, RUNS_PER_JOB, STORE, table_name, write_index

from clew.query.context import QueryResources
from clew.query.service import LineageService


def test_index_has_edges_and_runs(tmp_path: Path) -> None:
    write_index(tmp_path / "index.sqlite", 100)
    with QueryResources(tmp_path / "index.sqlite") as resources, resources.reader() as index:
        assert 300 <= resources.get_job_graph(index)[1].edge_count <= 400
        assert resources.get_column_graph(index)[1].edge_count == COLUMNS * 100
        runs = index.query_one("select count(*) from runs")
        assert runs is not None
        assert runs[0] == RUNS_PER_JOB * 100
        lineage = LineageService(resources, index).traverse(f"dataset:{STORE}:{table_name(99)}", "upstream")
    assert len(lineage.nodes) > 10
