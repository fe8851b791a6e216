"""Tests of the growth benchmark, without Spark."""

from __future__ import annotations

from pathlib import Path

from bench.costs import Cost
from bench.figures import Report, read_figures
from bench.generate import generate_events
from bench.measure_growth import LakeCost, append_events, report_growth
from bench.rounds import RunSize

from clew.lake.lake import Lake


def make_cost(lake: Lake, cpu: float) -> LakeCost:
    return LakeCost(lake, 1_000, Cost(cpu, cpu), Cost(cpu, cpu))


def test_new_events_are_appended_to_the_event_tables(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create_or_validate()
    generated = make_cost(lake, 1)
    batches = [list(generate_events(20, seed)) for seed in (1, 2)]
    for number, bodies in enumerate(batches):
        append_events(generated, iter(bodies), number)
    counts = lake.row_counts()
    assert counts["lineage_events"] == sum(len(set(bodies)) for bodies in batches)
    assert counts["dataset_facets"] > counts["lineage_events"]


def test_growth_is_relative_to_the_mean_of_both_runs(tmp_path: Path) -> None:
    path, lake = tmp_path / "figures.jsonl", Lake(tmp_path / "lake")
    small, before, large, after = (make_cost(lake, cpu) for cpu in (1, 8, 100, 12))
    report_growth(Report("growth", RunSize(), path), small, (before, after), large)
    assert [figure.value for figure in read_figures(path)] == [10, 10, 100]
