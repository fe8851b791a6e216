"""Run all benchmarks, or some of them, and write one report.

python -m bench.suite [EVENTS] [--only MEASURE,…] [--minutes N]

A full run of all benchmarks writes bench/report.md, report.json and report.svg, which are committed. Other runs write
the same files to build/bench.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import FIGURES_PATH, read_figures
from bench.machine import LoadMeter, describe_machine
from bench.report import NOT_RUN, BenchReport, MeasureRun, format_report, write_report
from bench.rounds import BUILD, FULL_RUN_EVENTS

_FOLDER = Path(__file__).parent
# It has no figures: it measures the inputs of the cost model, with the programs of other benchmarks.
_NOT_IN_REPORT = {"scale"}


def main() -> None:
    """Run the benchmarks; exit with 1 if one could not be run. A missed target is a result, not a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="?", default=FULL_RUN_EVENTS, help="size of the run")
    parser.add_argument("--only", default="", metavar="MEASURE,…", help="benchmarks to run (default: all)")
    parser.add_argument("--minutes", type=float, help="end the run after this time; the report names what was not run")
    arguments = parser.parse_args()
    measures = list_measures()
    selected = [name for name in arguments.only.split(",") if name] or measures
    if unknown := sorted(set(selected) - set(measures)):
        parser.error(f"no benchmark named {', '.join(unknown)}; there are {', '.join(measures)}")
    report = run_suite(selected, arguments.events, arguments.minutes)
    is_complete = sorted(selected) == measures and arguments.events >= FULL_RUN_EVENTS
    folder = _FOLDER if is_complete else BUILD
    write_report(report, folder)
    print(format_report(report), f"Written to {folder / 'report.md'}", sep="\n")
    sys.exit(any(run.exit_code not in {0, NOT_RUN} for run in report.runs))


def list_measures() -> list[str]:
    """List the names of all benchmarks that have figures."""
    return sorted({path.stem.removeprefix("measure_") for path in _FOLDER.glob("measure_*.py")} - _NOT_IN_REPORT)


def run_suite(measures: list[str], events: int, minutes: float | None = None) -> BenchReport:
    """Run benchmarks one after the other, each in its own process, until the time is up."""
    FIGURES_PATH.unlink(missing_ok=True)
    started_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    runs = [run_measure(measure, events, deadline) for measure in measures]
    return BenchReport(started_at, events, describe_machine(), runs, read_figures())


def run_measure(measure: str, events: int, deadline: float | None = None) -> MeasureRun:
    """Run a benchmark and measure how busy the machine was otherwise; at the deadline, kill it."""
    seconds = None if deadline is None else deadline - time.monotonic()
    if seconds is not None and seconds <= 0:
        return MeasureRun(measure, 0.0, NOT_RUN, 0.0)
    print(measure, flush=True)
    load, start = LoadMeter(), time.perf_counter()
    command = [sys.executable, "-m", f"bench.measure_{measure}", str(events)]
    with subprocess.Popen(command, start_new_session=seconds is not None) as process:
        try:
            exit_code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            # With the servers and JVMs that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            exit_code = NOT_RUN
    return MeasureRun(measure, time.perf_counter() - start, exit_code, load.other_load())


if __name__ == "__main__":
    main()
