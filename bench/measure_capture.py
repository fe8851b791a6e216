"""Benchmark: CPU of capture in a notebook, with all three streams, interleaved in one process, minimum of N.

python -m bench.measure_capture [EVENTS]
"""

from __future__ import annotations

import os

from bench.capture import (
    ELEMENT_LOOPS,
    WARM_UP_ROUNDS,
    count_leaked_frames,
    list_calls,
    list_workloads,
    measure_element_loop,
    measure_growth_mb,
    measure_overhead,
    measure_ratios,
    prepare_mask,
)
from bench.figures import Baseline, Report
from bench.notebooks import CELLS, LIBRARIES, measure_notebook, write_notebook
from bench.rounds import parse_run_size, scratch_folder

from clew.capture.diagnostics import error_counts

# Rows, repetitions, rounds of the workload in each, and the target.
SIZES = ((1_000, 12, 20, 1.10), (1_000_000, 5, 2, 1.03))


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("capture", run_size)
    with scratch_folder() as folder:
        os.environ["CLEW_OUT"] = str(folder)
        warm_up = run_size.scale(WARM_UP_ROUNDS, 4)
        for library, steps in list_workloads().items():
            for full_rows, repeats, times, target in SIZES:
                rows = run_size.scale(full_rows, 1_000)
                cost = measure_ratios(steps, rows, run_size.scale(repeats), times, warm_up)
                name = f"{library}, {full_rows:,} rows"
                report.log(f"{name}: {cost.plain * 1000:.2f} ms without capture; worker process x{cost.worker:.2f}")
                ratios = {"many rounds in one cell": cost.one_cell, "one cell per round": cost.cell_per_round}
                for label, ratio in ratios.items():
                    if library == "pandas":
                        report.check_max(f"{name}, {label}: CPU with / without", ratio, target, "×")
                    else:
                        report.compare(f"{name}, {label}: CPU with / without", ratio, "×")
        repeats = run_size.scale(5)
        for name, (prepare, times) in list_calls().items():
            plain, overhead = measure_overhead(prepare, run_size.scale(times), repeats)
            if name == "df['x']":
                baseline = Baseline("df['x'] without capture", plain * 1e6)
                report.check_max("additional time of df['x']", overhead * 1e6, 2.5, " µs", baseline=baseline)
            else:
                report.log(f"{name:<12} {plain * 1e6:8.1f} µs, +{overhead * 1e6:.1f}")
        for name, source in ELEMENT_LOOPS.items():
            ratio = measure_element_loop(source, run_size.scale(10_000, 100), run_size.scale(3))
            report.check_max(f"loop of {name}: CPU with / without", ratio, 1.5, "×")
        for library in LIBRARIES:
            notebook = folder / f"{library}_rides.py"
            write_notebook(notebook, library, run_size.scale(CELLS, 12))
            plain, captured = measure_notebook(notebook, folder / "streams", run_size.scale(3))
            report.log(f"notebook of 59 cells, {library}: {plain:.2f} s without capture")
            report.check_max(f"notebook of 59 cells, {library}: CPU with / without", captured / plain, 1.10, "×")
        narrow, wide = (measure_overhead(prepare_mask(columns), 100, repeats)[1] for columns in (50, 5_000))
        report.log(f"df[mask] of 50 columns +{narrow * 1e6:.1f} µs, of 5,000 +{wide * 1e6:.1f}")
        report.check_max("df[mask]: additional time with 5,000 columns / with 50", wide / narrow, 1.5, "×")
        few = run_size.scale(300, 10)
        plain, captured = measure_growth_mb(few, 8 * few)
        baseline = Baseline("without capture", plain)
        report.check_max("memory growth from 300 to 2,400 rounds", captured, 5, " MB", baseline=baseline)
        report.check_max("frames that are alive after del", count_leaked_frames(), 0)
    report.log(f"capture errors: {error_counts() or 'none'}")


if __name__ == "__main__":
    main()
