"""Generate docs/scale.md, a cost model from measured bytes and CPU per event, and bench/scale.json, the run it is from.

python -m bench.measure_scale                                    measure: writes build/bench/scale.json
python scripts/generate_scale_model.py build/bench/scale.json    use this run, and write the page
python scripts/generate_scale_model.py                           write the page from bench/scale.json
python scripts/generate_scale_model.py --check                   fail if the committed page is stale
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.scale import ScaleRun, StageCosts  # noqa: E402  # from the folder of the checkout

RUN: Final = ROOT / "bench" / "scale.json"
OUTPUT: Final = ROOT / "docs" / "scale.md"

SECONDS_PER_DAY: Final = 86_400
VOLUMES: Final = (10**6, 10**7, 10**8, 10**9)
# The assumptions of the model, which are also in the page.
PEAK_FACTOR: Final = 3.0
UTILISATION: Final = 0.6
CORES_PER_EXECUTOR: Final = 4
MB_PER_PARTITION: Final = 10.0
KAFKA_REPLICAS: Final = 3
LOG_DAYS: Final = 3
LAKE_DAYS: Final = 90
# A SQLite file or PostgreSQL database that is still comfortable to rebuild and to keep in the cache of one machine.
MAX_INDEX_BYTES: Final = 500e9
MAX_LOG_BYTES: Final = 4e12
# Of one server process: its event loop is one thread.
MAX_COLLECTOR_CORES: Final = 1


class Demand(Struct, frozen=True):
    """What a number of events per day needs."""

    events_per_day: float
    mean_rate: float
    peak_rate: float
    peak_megabytes: float
    collector_cores: float
    pipeline_cores: float
    executors: int
    partitions: int
    writer_share: float
    derivation_core_hours: float
    log_bytes: float
    kafka_bytes: float
    lake_bytes_per_day: float
    lake_bytes: float
    index_bytes: float


class Limit(Struct, frozen=True):
    """Events per day at which a part does not suffice any more, and what to do then."""

    part: str
    events_per_day: float
    remedy: str


def compute_demand(costs: StageCosts, events_per_day: float) -> Demand:
    """Compute what a number of events per day needs."""
    mean = events_per_day / SECONDS_PER_DAY
    peak = PEAK_FACTOR * mean
    megabytes = peak * costs.event_bytes / 1e6
    # The driver writes the index; the tasks of executors do the rest.
    task_cores = peak * (costs.tables_seconds + costs.index_seconds) / UTILISATION
    executors = max(1, math.ceil(task_cores / CORES_PER_EXECUTOR))
    lake_bytes = costs.event_table_bytes + costs.derived_table_bytes
    return Demand(
        events_per_day,
        mean,
        peak,
        megabytes,
        collector_cores=peak * costs.collector_seconds / UTILISATION,
        pipeline_cores=task_cores,
        executors=executors,
        # As many as cores, so that each has work.
        partitions=max(math.ceil(megabytes / MB_PER_PARTITION), math.ceil(task_cores), 1),
        writer_share=peak * costs.index_writer_seconds,
        derivation_core_hours=events_per_day * costs.derivation_seconds / 3600,
        log_bytes=events_per_day * LOG_DAYS * costs.log_bytes,
        kafka_bytes=events_per_day * LOG_DAYS * costs.event_bytes * KAFKA_REPLICAS,
        lake_bytes_per_day=events_per_day * lake_bytes,
        lake_bytes=events_per_day * LAKE_DAYS * lake_bytes,
        index_bytes=events_per_day * LAKE_DAYS * costs.index_bytes,
    )


def find_limits(costs: StageCosts, cores: int) -> list[Limit]:
    """Return the volume at which each part does not suffice any more, the first one first."""
    per_day = SECONDS_PER_DAY / PEAK_FACTOR
    task_seconds = costs.tables_seconds + costs.index_seconds
    limits = [
        Limit(
            "one collector process (one core)",
            per_day * UTILISATION * MAX_COLLECTOR_CORES / costs.collector_seconds,
            "several collectors, each with its own data directory, or producers that write to Kafka",
        ),
        Limit(
            f"pipeline on the {cores} cores of the measured machine",
            per_day * UTILISATION * cores / task_seconds,
            "a machine with more cores, or a cluster: this part is divided among executors",
        ),
        Limit(
            "index writer (one thread, one transaction per batch)",
            per_day * UTILISATION / costs.index_writer_seconds,
            "one index per group of namespaces, each with its own pipeline; the lake alone has no such limit",
        ),
        Limit(
            f"index of {LAKE_DAYS} days above {_format_bytes(MAX_INDEX_BYTES)}",
            MAX_INDEX_BYTES / (LAKE_DAYS * costs.index_bytes),
            "a shorter retention (`clew pipeline compact --drop-older-than`), or PostgreSQL on a larger machine",
        ),
        Limit(
            f"log of {LOG_DAYS} days above {_format_bytes(MAX_LOG_BYTES)} on one disk",
            MAX_LOG_BYTES / (LOG_DAYS * costs.log_bytes),
            "a shorter `--log-retention`, or Kafka",
        ),
        Limit(
            "derived tables (one core of the driver for the whole day)",
            SECONDS_PER_DAY * UTILISATION / costs.derivation_seconds,
            "refresh less often (`--refresh-minutes`), or rebuild on the cluster at night",
        ),
    ]
    return sorted(limits, key=lambda limit: limit.events_per_day)


def render(run: ScaleRun) -> str:
    """Return the text of the page."""
    demands = [compute_demand(run.costs, volume) for volume in VOLUMES]
    limits = find_limits(run.costs, run.cores)
    machine = f"{run.machine}, {run.cores} cores, {run.memory_gb:.0f} GB, Python {run.python}"
    return f"""\
# Scale

<!-- Generated by scripts/generate_scale_model.py. Do not edit. -->

This page is a cost model: what a number of events per day needs, up to 1,000 million, and which part does not suffice
first. The costs per event are measured; everything else is computed from them by
[`scripts/generate_scale_model.py`](../scripts/generate_scale_model.py). No cluster of this size was measured.

## Measured costs

From `python -m bench.measure_scale` with {run.events:,} distinct events, clew {run.version}, on {run.date}.
Machine: {machine}, with other processes on it.

CPU is the sum of all processes including the JVM, after a warm-up, without the start of Spark. A small run
overestimates the refresh of the derived tables, which has a fixed cost of about ten seconds of CPU, and the size of the
index. [bench/README.md](../bench/README.md) describes the generated events.

{_table(("per event", "measured"), _cost_rows(run.costs))}
CPU differs between machines and with the events. Measure your own: record a day of events, or set the mix in
`bench/generate.py`, and run both commands.

## Assumptions

| assumption | value |
|---|---|
| peak, compared with the mean of a day | {PEAK_FACTOR:g} times |
| utilisation of a core at the peak | {UTILISATION:.0%} |
| cores per executor | {CORES_PER_EXECUTOR} |
| bytes per second of a Kafka partition | {MB_PER_PARTITION:g} MB |
| replicas in Kafka | {KAFKA_REPLICAS} |
| retention of the log, or of the topic | {LOG_DAYS} days |
| retention of the lake and the index | {LAKE_DAYS} days |

Costs per event are assumed to be constant. `make bench` compares 100,000 with 1,000,000 events (`growth`) for that.

## Demand

{_table(("events per day", *map(_format_count, VOLUMES)), _demand_rows(demands))}
- **Collector cores** are CPU of event loops. A collector is one process with one of them.
- **Executors** decode events and write Parquet files. They also extract and reduce the changes of the index.
- **Index writer** is the share of its time that the thread on the driver needs at the peak. Above 100 %, the index
  falls behind at the peak; above {100 * PEAK_FACTOR:.0f} %, it falls behind for good.
- **Partitions** are the larger of what the bytes need and the number of cores, so that each core has one.

## Where it breaks first

{_table(("part", "events per day", "then"), _limit_rows(limits))}
The first limit is: {limits[0].part}, at {_format_count(limits[0].events_per_day)} events per day.
At 1,000 million, {_broken(limits)}.
"""


def _cost_rows(costs: StageCosts) -> list[tuple[str, str]]:
    return [
        ("event, as sent", f"{costs.event_bytes:,.0f} bytes"),
        ("log", f"{costs.log_bytes:,.0f} bytes"),
        ("lake: event tables, compacted, with the raw event", f"{costs.event_table_bytes:,.0f} bytes"),
        ("lake: derived tables and their state", f"{costs.derived_table_bytes:,.0f} bytes"),
        ("index (SQLite)", f"{costs.index_bytes:,.0f} bytes"),
        ("collector", f"{1e3 * costs.collector_seconds:.3f} ms of CPU"),
        ("pipeline up to committed tables", f"{1e3 * costs.tables_seconds:.3f} ms of CPU"),
        ("additional for the index", f"{1e3 * costs.index_seconds:.3f} ms of CPU"),
        ("of this, thread of the index writer", f"{1e3 * costs.index_writer_seconds:.3f} ms of time"),
        ("refresh of all derived tables", f"{1e3 * costs.derivation_seconds:.3f} ms of CPU"),
        ("rebuild of the index from the lake", f"{1e3 * costs.rebuild_seconds:.3f} ms of CPU"),
    ]


def _demand_rows(demands: Sequence[Demand]) -> list[tuple[str, ...]]:
    rows = {
        "events per second, mean": [_format_number(item.mean_rate) for item in demands],
        "events per second, peak": [_format_number(item.peak_rate) for item in demands],
        "MB per second, peak": [_format_number(item.peak_megabytes) for item in demands],
        "collector cores": [_format_number(item.collector_cores) for item in demands],
        "pipeline cores": [_format_number(item.pipeline_cores) for item in demands],
        f"executors of {CORES_PER_EXECUTOR} cores": [f"{item.executors:,}" for item in demands],
        "Kafka partitions": [f"{item.partitions:,}" for item in demands],
        "index writer, share of one thread": [f"{item.writer_share:.1%}" for item in demands],
        "derived tables, core-hours per day": [_format_number(item.derivation_core_hours) for item in demands],
        f"log, {LOG_DAYS} days": [_format_bytes(item.log_bytes) for item in demands],
        f"or Kafka, {LOG_DAYS} days": [_format_bytes(item.kafka_bytes) for item in demands],
        "lake, per day": [_format_bytes(item.lake_bytes_per_day) for item in demands],
        f"lake, {LAKE_DAYS} days": [_format_bytes(item.lake_bytes) for item in demands],
        f"index, {LAKE_DAYS} days": [_format_bytes(item.index_bytes) for item in demands],
    }
    return [(name, *values) for name, values in rows.items()]


def _limit_rows(limits: Sequence[Limit]) -> list[tuple[str, str, str]]:
    return [(limit.part, _format_count(limit.events_per_day), limit.remedy) for limit in limits]


def _broken(limits: Sequence[Limit]) -> str:
    count = sum(limit.events_per_day < VOLUMES[-1] for limit in limits)
    if count == len(limits):
        return "no part suffices alone: all of them must be divided"
    return f"{count} of {len(limits)} parts do not suffice alone" if count else "each part suffices"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.1 else f"{value:.3f}"


def _format_count(value: float) -> str:
    """Format a number with two digits, in millions."""
    digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
    rounded = round(value / digits) * digits
    return f"{rounded / 1e6:,.0f} million" if rounded >= 1e6 else f"{rounded:,.0f}"


def _format_bytes(value: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= size:
            return f"{value / size:,.{0 if value >= 10 * size else 1}f} {unit}"
    return f"{value:,.0f} bytes"


def read_run(path: Path) -> ScaleRun:
    """Read a run."""
    return msgspec.json.decode(path.read_bytes(), type=ScaleRun)


def main(arguments: Sequence[str]) -> int:
    """Write or check the page."""
    if arguments == ["--check"]:
        is_current = OUTPUT.exists() and OUTPUT.read_text(encoding="utf-8") == render(read_run(RUN))
        if not is_current:
            print("docs/scale.md is stale: run python scripts/generate_scale_model.py", file=sys.stderr)
        return 0 if is_current else 1
    if arguments:
        run = read_run(Path(arguments[0]))
        RUN.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    OUTPUT.write_text(render(read_run(RUN)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
