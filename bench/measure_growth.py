"""Benchmark: growth of the cost from 10,000 to 1,000,000 events, of ingestion, derived tables and refreshes.

Events are those of the other benchmarks without the facets that are equal in all events of a job or a table, which are
two thirds of their bytes. The smallest log is the warm-up. The one of 100,000 events is ingested before and after the
largest, because the load of shared cores varies. Then 1,000 new events at a time are added to both lakes, alternating,
and the derived tables are refreshed; the first derivation of the largest lake is the measure of a refresh that
processes all events. The new events are written to the lake directly, without log and index.

python -m bench.measure_growth [EVENTS]     a full run compares 10,000, 100,000 and 1,000,000 events
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import msgspec
from bench.costs import Cost, measure_cost
from bench.figures import Report
from bench.generate import generate_events
from bench.logs import SEED, Log, write_log
from bench.rounds import parse_run_size, scratch_folder
from bench.whole_log import ingest_log
from pyspark.sql import SparkSession

from clew.events.ids import event_id
from clew.events.streams import Stream, decode_utf8
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.spark.session import build_session

_BASE_EVENTS = 100_000
_FACTOR = 10
_NEW_EVENTS = 1_000
_ROUNDS = 3
_RECEIVED_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LakeCost:
    """A lake, the position after its last event, and the costs of ingesting and deriving its tables."""

    lake: Lake
    end: int
    ingestion: Cost
    derivation: Cost

    @property
    def total(self) -> Cost:
        """Sum of both."""
        return self.ingestion + self.derivation


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("growth", run_size)
    base = run_size.scale(_BASE_EVENTS, _FACTOR)
    spark = build_session()
    with scratch_folder() as folder:
        logs = {
            events: write_log(folder / f"log-{events}", map(strip_facets, generate_events(events, SEED)))
            for events in (base // _FACTOR, base, _FACTOR * base)
        }
        measure = partial(ingest_and_derive, report, spark)
        small = measure(logs[base // _FACTOR], folder / "small")
        before = measure(logs[base], folder / "before")
        large = measure(logs[_FACTOR * base], folder / "large")
        after = measure(logs[base], folder / "after")
        report_growth(report, small, (before, after), large)
        measure_refreshes(report, spark, before, large, run_size.scale(_NEW_EVENTS, 10))


def strip_facets(body: bytes) -> bytes:
    """Return the event without the facets of its job, and without schemas and sources of its datasets."""
    event = msgspec.json.decode(body)
    event["job"].pop("facets")
    for dataset in (*event["inputs"], *event["outputs"]):
        dataset["facets"] = {
            name: facet for name, facet in dataset["facets"].items() if name in {"columnLineage", "version"}
        }
    return msgspec.json.encode(event)


def ingest_and_derive(report: Report, spark: SparkSession, log: Log, folder: Path) -> LakeCost:
    """Ingest a log into tables and index, and derive the other tables."""
    home = log.create_home(folder)
    ingestion = ingest_log(log, home, spark).ingestion
    lake = Lake(home.lake)
    derivation = measure_cost(partial(refresh_derived_tables, spark, lake))
    report.log(
        f"{log.events:9,} events of {log.end / log.events:,.0f} bytes:"
        f" ingestion {ingestion.cpu:,.1f}, derived tables {derivation.cpu:,.1f} CPU-s"
    )
    return LakeCost(lake, log.end, ingestion, derivation)


def report_growth(report: Report, small: LakeCost, usual: tuple[LakeCost, LakeCost], large: LakeCost) -> None:
    """Report the ratios of the CPU times."""
    before, after = usual
    ingestion = 2 * large.ingestion.cpu / (before.ingestion.cpu + after.ingestion.cpu)
    total = 2 * large.total.cpu / (before.total.cpu + after.total.cpu)
    # Separate from the total: the fixed cost of derived tables would hide growth.
    report.check_max(f"CPU of the ingestion for {_FACTOR} times the events", ingestion, 10.5, "×")
    report.check_max(f"CPU of ingestion and derived tables for {_FACTOR} times the events", total, 10.5, "×")
    hundredfold = large.total.cpu / small.total.cpu
    report.check_max(
        f"CPU of ingestion and derived tables for {_FACTOR**2} times the events", hundredfold, 10.5**2, "×"
    )


def measure_refreshes(report: Report, spark: SparkSession, small: LakeCost, large: LakeCost, new_events: int) -> None:
    """Compare refreshes of both lakes, alternating, with the derivation of all tables."""
    seeds, costs = count(SEED + 1), dict[LakeCost, list[float]]({small: [], large: []})
    # The first round is a warm-up.
    for round_number in range(_ROUNDS + 1):
        for generated, of_lake in costs.items():
            append_events(generated, generate_events(new_events, next(seeds)), round_number)
            cost = measure_cost(partial(refresh_derived_tables, spark, generated.lake))
            if round_number:
                of_lake.append(cost.cpu)
    of_small, of_large = median(costs[small]), median(costs[large])
    report.log(f"refresh of the smaller lake {of_small:.1f}, of the larger {of_large:.1f} CPU-s")
    report.check_max(
        f"CPU of a refresh in a lake {_FACTOR} times as large",
        of_large / of_small,
        2.0,
        "×",
        rounds=[one / other for one, other in zip(costs[large], costs[small], strict=True)],
    )
    report.check_max(
        "CPU of a refresh / of a rebuild",
        100 * of_large / large.derivation.cpu,
        5.0,
        " %",
        rounds=[100 * cost / large.derivation.cpu for cost in costs[large]],
    )


def append_events(generated: LakeCost, bodies: Iterator[bytes], number: int) -> None:
    """Append events to the event tables of a lake, each once."""
    rows, writer = EventTableBuilder(), FileWriter(str(generated.lake.root), LARGE_COLUMNS)
    for position, body in enumerate(unique(bodies)):
        received = ReceivedEvent(event_id(body), generated.end + (number << 32) + position, _RECEIVED_AT, "bench", body)
        rows.add(decode_utf8(Stream.OPENLINEAGE, body), received)
    files = [*writer.add(rows.drain()), *writer.flush()]
    generated.lake.append_tables(EVENT_TABLES, files, BatchId("bench", number))


def unique(bodies: Iterable[bytes]) -> Iterable[bytes]:
    """Remove repeated deliveries."""
    return dict.fromkeys(bodies)


if __name__ == "__main__":
    main()
