"""Benchmark: refresh of the derived tables after new events, in a small and in a ten times larger lake.

Both lakes are refreshed several times, alternating; the median of the CPU counts. A rebuild of the larger lake is the
measure of a refresh that processes all events. Event tables are written directly, without log and index.

python -m bench.measure_refresh [EVENTS]     a full run compares lakes of 100,000 and 1,000,000 events
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median

from bench.costs import measure_cost
from bench.figures import Report
from bench.generate import generate_events
from bench.logs import SEED
from bench.rounds import parse_run_size, scratch_folder

from clew.events.ids import event_id
from clew.events.streams import Stream, decode_utf8
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import EVENT_TABLES, LARGE_COLUMNS
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.spark.session import build_session

_BASE_EVENTS = 100_000
_FACTOR = 10
_NEW_EVENTS = 1_000
_ROUNDS = 5
_EVENTS_PER_BATCH = 20_000
_EVENTS_PER_DRAIN = 500
_RECEIVED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("refresh", run_size)
    base = run_size.scale(_BASE_EVENTS)
    spark, seeds = build_session(), count(SEED + 1)
    with scratch_folder() as folder:
        small, large = (GeneratedLake(folder / str(events), events) for events in (base, _FACTOR * base))
        rebuild = measure_cost(partial(refresh_derived_tables, spark, large.lake))
        refresh_derived_tables(spark, small.lake)
        costs: dict[GeneratedLake, list[float]] = {small: [], large: []}
        # The first round is a warm-up.
        for round_number in range(_ROUNDS + 1):
            for generated, of_lake in costs.items():
                generated.add(generate_events(_NEW_EVENTS, next(seeds)))
                cost = measure_cost(partial(refresh_derived_tables, spark, generated.lake))
                if round_number:
                    of_lake.append(cost.cpu)
    of_small, of_large = median(costs[small]), median(costs[large])
    report.log(f"rebuild {rebuild.cpu:.1f}, refresh {of_large:.1f}, in a lake of {base:,} events {of_small:.1f} CPU-s")
    report.check_max(
        f"CPU of a refresh in a lake {_FACTOR} times as large",
        of_large / of_small,
        2.0,
        "×",
        rounds=[one / other for one, other in zip(costs[large], costs[small], strict=True)],
    )
    report.check_max(
        "CPU of a refresh / of a rebuild",
        100 * of_large / rebuild.cpu,
        5.0,
        " %",
        rounds=[100 * cost / rebuild.cpu for cost in costs[large]],
    )


class GeneratedLake:
    """A lake with the event tables of generated events."""

    def __init__(self, folder: Path, events: int) -> None:
        self.lake = Lake(folder)
        self.lake.create_or_validate()
        self._ids: set[str] = set()
        self._position = 0
        self._batches = count()
        bodies = generate_events(events, SEED)
        while batch := list(islice(bodies, _EVENTS_PER_BATCH)):
            self.add(batch)

    def add(self, bodies: Iterable[bytes]) -> None:
        """Append a batch of events, each once."""
        rows, writer = EventTableBuilder(), FileWriter(str(self.lake.root), LARGE_COLUMNS)
        files: list[DataFile] = []
        for number, body in enumerate(bodies, start=1):
            self._position += len(body)
            identity = event_id(body)
            if identity not in self._ids:
                self._ids.add(identity)
                received = ReceivedEvent(identity, self._position, _RECEIVED_AT, "bench", body)
                rows.add(decode_utf8(Stream.OPENLINEAGE, body), received)
            if number % _EVENTS_PER_DRAIN == 0:
                files += writer.add(rows.drain())
        files += [*writer.add(rows.drain()), *writer.flush()]
        self.lake.append_tables(EVENT_TABLES, files, BatchId("bench", next(self._batches)))


if __name__ == "__main__":
    main()
