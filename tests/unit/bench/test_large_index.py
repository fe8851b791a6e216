"""The index that questions are measured on has what it says."""

from __future__ import annotations

from pathlib import Path

from bench.large_index import COLUMNS, RUNS_PER_JOB, STORE, table_name, write_index

from clew.query.context import QueryResources
from clew.query.lineage import traverse_lineage


def test_jobs_feed_each_other_and_have_runs(tmp_path: Path) -> None:
    write_index(tmp_path / "index.sqlite", 100)
    with QueryResources(tmp_path / "index.sqlite") as holdings, holdings.reader() as index:
        assert 300 <= holdings.get_job_graph(index)[1].edge_count <= 400
        assert holdings.get_column_graph(index)[1].edge_count == COLUMNS * 100
        runs = index.query_one("select count(*) from runs")
        assert runs is not None
        assert runs[0] == RUNS_PER_JOB * 100
        last = traverse_lineage(holdings, index, f"dataset:{STORE}:{table_name(99)}", direction="upstream")
    assert len(last.nodes) > 10
