"""What capture costs a notebook, with all three streams written: CPU time, interleaved in one process, minimum of N.

python -m bench.measure_capture [EVENTS]
"""

from __future__ import annotations

import os

from bench.capture import added, calls, growth_mb, kept_alive, masking, ratios
from bench.figures import Report
from bench.rounds import asked_for, scratch

from clew.capture.diagnostics import error_counts

# Rows, repeats of a full round, rounds of the workload in each, and the bar.
SIZES = ((1_000, 30, 20, 1.10), (1_000_000, 9, 2, 1.03))


def main() -> None:
    """Print the figures."""
    asked = asked_for(__doc__)
    report = Report("capture", asked)
    with scratch() as folder:
        os.environ["CLEW_OUT"] = str(folder)
        for rows, repeats, times, bar in SIZES:
            found = ratios(rows, asked.share(repeats, at_least=3), times)
            report.say(
                f"{rows:,} rows: {found.plain * 1000:.2f} ms without capture; the worker takes x{found.worker:.2f}"
            )
            report.at_most(f"{rows:,} rows, many rounds in a cell: CPU with / without", found.one_cell, bar)
            report.at_most(f"{rows:,} rows, a cell for each round: CPU with / without", found.a_cell_each, bar)
        repeats = asked.share(9, at_least=3)
        for name, (prepare, times) in calls().items():
            plain, more = added(prepare, times, repeats)
            if name == "df['x']":
                report.at_most("df['x'] takes more by", more * 1e6, 2.5, " µs")
            else:
                report.say(f"{name:<12} {plain * 1e6:8.1f} µs, +{more * 1e6:.1f}")
        narrow, wide = (added(masking(columns), 100, repeats)[1] for columns in (50, 5_000))
        report.say(f"df[mask] of 50 columns +{narrow * 1e6:.1f} µs, of 5,000 +{wide * 1e6:.1f}")
        report.at_most("df[mask]: what 5,000 columns add / what 50 do", wide / narrow, 1.5)
        report.at_most("growth from 300 to 3,000 rounds", growth_mb(300, asked.share(3_000, 600)), 5, " MB")
        report.at_most("frames that live on after del", kept_alive(), 0)
    report.say(f"losses: {error_counts() or 'none'}")


if __name__ == "__main__":
    main()
