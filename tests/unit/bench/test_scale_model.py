"""Tests of the cost model of docs/scale.md."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import msgspec
import pytest
from bench.scale import ScaleRun, StageCosts
from tests.support.paths import ROOT


def load_script() -> ModuleType:
    path = ROOT / "scripts" / "generate_scale_model.py"
    spec = importlib.util.spec_from_file_location("generate_scale_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


model = load_script()
COSTS = StageCosts(
    event_bytes=6_000,
    log_bytes=6_300,
    event_table_bytes=1_200,
    derived_table_bytes=300,
    index_bytes=800,
    collector_seconds=0.0003,
    tables_seconds=0.0004,
    index_seconds=0.0002,
    index_writer_seconds=0.0001,
    derivation_seconds=0.0005,
    rebuild_seconds=0.0002,
)


def test_the_committed_page_is_current() -> None:
    assert model.main(["--check"]) == 0


def test_the_committed_run_is_one_of_the_benchmark() -> None:
    run = msgspec.json.decode((ROOT / "bench" / "scale.json").read_bytes(), type=ScaleRun)
    assert run.events > 10_000
    costs = msgspec.structs.asdict(run.costs)
    assert costs.keys() == msgspec.structs.asdict(COSTS).keys()
    assert all(value > 0 for value in costs.values())
    # The log has the event and its envelope, the lake has it compressed.
    assert costs["log_bytes"] >= costs["event_bytes"] > costs["event_table_bytes"]


def test_demand_by_hand() -> None:
    """864 million events a day are 10,000 per second, and 30,000 at the peak."""
    demand = model.compute_demand(COSTS, 864e6)
    assert (demand.mean_rate, demand.peak_rate, demand.peak_megabytes) == (10_000, 30_000, 180)
    assert demand.collector_cores == pytest.approx(30_000 * 0.0003 / 0.6)
    assert demand.pipeline_cores == pytest.approx(30_000 * 0.0006 / 0.6)
    assert demand.executors == 8
    # 18 for the bytes, and 30 so that each core has one.
    assert demand.partitions == 30
    assert demand.writer_share == pytest.approx(3)
    assert demand.derivation_core_hours == pytest.approx(120)
    assert demand.log_bytes == pytest.approx(864e6 * 3 * 6_300)
    assert demand.kafka_bytes == pytest.approx(864e6 * 3 * 6_000 * 3)
    assert demand.lake_bytes == pytest.approx(864e6 * 90 * 1_500)
    assert demand.index_bytes == pytest.approx(864e6 * 90 * 800)


@pytest.mark.parametrize("volume", model.VOLUMES)
def test_demand_is_proportional(volume: float) -> None:
    single, double = (model.compute_demand(COSTS, factor * volume) for factor in (1, 2))
    for name in ("peak_rate", "pipeline_cores", "lake_bytes", "index_bytes", "writer_share"):
        assert getattr(double, name) == pytest.approx(2 * getattr(single, name))
    assert single.executors <= double.executors <= 2 * single.executors


def test_at_a_limit_the_part_is_just_sufficient() -> None:
    limits = {limit.part.split(" (")[0]: limit.events_per_day for limit in model.find_limits(COSTS, 2)}
    collector = model.compute_demand(COSTS, limits["one collector process"])
    assert collector.collector_cores == pytest.approx(1)
    pipeline = model.compute_demand(COSTS, limits["pipeline on the 2 cores of the measured machine"])
    assert pipeline.pipeline_cores == pytest.approx(2)
    writer = model.compute_demand(COSTS, limits["index writer"])
    assert writer.writer_share == pytest.approx(model.UTILISATION)
    assert limits["derived tables"] * COSTS.derivation_seconds == pytest.approx(0.6 * 86_400)


def test_the_first_limit_is_the_smallest() -> None:
    limits = model.find_limits(COSTS, 2)
    assert [limit.events_per_day for limit in limits] == sorted(limit.events_per_day for limit in limits)
    slower = msgspec.structs.replace(COSTS, index_writer_seconds=1.0)
    assert model.find_limits(slower, 2)[0].part.startswith("index writer")


def test_the_page_has_every_measured_cost_and_volume() -> None:
    run = ScaleRun("2026-03-01", "0.1.0", "a CPU", 2, 8.0, "3.12", 40_000, COSTS)
    page = model.render(run)
    for text in ("0.300 ms", "6,300 bytes", "2026-03-01", "a CPU, 2 cores, 8 GB", "1,000 million"):
        assert text in page
    assert len(re.findall(r"^\| ", page, re.MULTILINE)) > 40


@pytest.mark.parametrize(
    ("value", "text"),
    [(123_456, "120,000"), (1_230_000, "1 million"), (12_345_678, "12 million"), (1e9, "1,000 million")],
)
def test_counts(value: float, text: str) -> None:
    assert model._format_count(value) == text
