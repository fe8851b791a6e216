"""Benchmark: CPU of capture in a notebook, with all three streams, interleaved in one process, minimum of N.

python -m bench.measure_capture [EVENTS]
"""

from __future__ import annotations

import os
import statistics

from bench.capture import (
    ELEMENT_LOOPS,
    count_leaked_frames,
    list_calls,
    measure_element_loop,
    measure_growth_mb,
    measure_overhead,
    measure_ratios,
    prepare_mask,
)
from bench.figures import Report
from bench.notebooks import LIBRARIES, measure_notebook, write_notebook
from bench.rounds import parse_run_size, scratch_folder

from clew.capture.diagnostics import error_counts

# Rows, repetitions, rounds of the workload in each, and the target.
SIZES = ((1_000, 30, 20, 1.10), (1_000_000, 9, 2, 1.03))


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("capture", run_size)
    with scratch_folder() as folder:
        os.environ["CLEW_OUT"] = str(folder)
        for rows, repeats, times, target in SIZES:
            cost = measure_ratios(rows, run_size.scale(repeats, minimum=3), times)
            report.log(f"{rows:,} rows: {cost.plain * 1000:.2f} ms without capture; worker process x{cost.worker:.2f}")
            report.check_max(f"{rows:,} rows, many rounds in one cell: CPU with / without", cost.one_cell, target)
            report.check_max(f"{rows:,} rows, one cell per round: CPU with / without", cost.cell_per_round, target)
        repeats = run_size.scale(9, minimum=3)
        for name, (prepare, times) in list_calls().items():
            plain, overhead = measure_overhead(prepare, times, repeats)
            if name == "df['x']":
                report.check_max("additional time of df['x']", overhead * 1e6, 2.5, " µs")
            else:
                report.log(f"{name:<12} {plain * 1e6:8.1f} µs, +{overhead * 1e6:.1f}")
        for name, source in ELEMENT_LOOPS.items():
            ratio = measure_element_loop(source, run_size.scale(10_000, minimum=5_000), run_size.scale(5, minimum=3))
            report.check_max(f"loop of {name}: CPU with / without", ratio, 1.5)
        ratios = []
        for library in LIBRARIES:
            notebook = folder / f"{library}_rides.py"
            write_notebook(notebook, library)
            plain, captured = measure_notebook(notebook, folder / "streams", run_size.scale(5, minimum=1))
            report.log(f"notebook of 59 cells, {library}: {plain:.2f} s without capture, x{captured / plain:.2f}")
            ratios.append(captured / plain)
        report.check_max(
            "notebooks of 59 cells, median: CPU with / without", statistics.median(ratios), 1.10, rounds=ratios
        )
        narrow, wide = (measure_overhead(prepare_mask(columns), 100, repeats)[1] for columns in (50, 5_000))
        report.log(f"df[mask] of 50 columns +{narrow * 1e6:.1f} µs, of 5,000 +{wide * 1e6:.1f}")
        report.check_max("df[mask]: additional time with 5,000 columns / with 50", wide / narrow, 1.5)
        report.check_max(
            "memory growth from 300 to 3,000 rounds", measure_growth_mb(300, run_size.scale(3_000, 600)), 5, " MB"
        )
        report.check_max("frames that are alive after del", count_leaked_frames(), 0)
    report.log(f"capture errors: {error_counts() or 'none'}")


if __name__ == "__main__":
    main()
