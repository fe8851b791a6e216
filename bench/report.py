"""Report of a run of the benchmarks: Markdown, JSON and a plot."""

from __future__ import annotations

from pathlib import Path

import msgspec
from bench.figures import Figure, format_table
from bench.machine import Machine
from bench.rounds import FULL_RUN_EVENTS
from msgspec import Struct

# More than this many cores of other processes distort wall times.
_MAX_OTHER_LOAD = 0.15
_MAX_PLOTTED_MARGIN = 100.0
MAX_MINUTES = 40
# Exit code of a benchmark that was not run to its end, because the time was up.
NOT_RUN = 124
_NAME = "report"
_SMALL_RUN = " This is a run of {:,} events; the targets are set for {:,}."


class MeasureRun(Struct, frozen=True):
    """Run of one benchmark program."""

    measure: str
    seconds: float
    exit_code: int
    other_load: float

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used much CPU meanwhile."""
        return self.other_load > _MAX_OTHER_LOAD


class BenchReport(Struct, frozen=True):
    """All figures of a run, with the machine it ran on."""

    started_at: str
    events: int
    machine: Machine
    runs: list[MeasureRun]
    figures: list[Figure]


def write_report(report: BenchReport, folder: Path) -> None:
    """Write report.md, report.json and report.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(report), indent=1)
    (folder / f"{_NAME}.json").write_bytes(encoded + b"\n")
    plot_margins([figure for figure in report.figures if figure.target is not None], folder / f"{_NAME}.svg")
    (folder / f"{_NAME}.md").write_text(format_report(report))


def format_report(report: BenchReport) -> str:
    """Format the report as Markdown."""
    machine = report.machine
    libraries = ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
    targets = [figure for figure in report.figures if figure.target is not None]
    met = sum(figure.is_met for figure in targets)
    size = "" if report.events >= FULL_RUN_EVENTS else _SMALL_RUN.format(report.events, FULL_RUN_EVENTS)
    return f"""# Benchmark report

Written by `make bench` on {report.started_at}, commit {machine.commit}. [README.md](README.md) describes each figure.
{met} of {len(targets)} targets were met.{size}

## Machine

{machine.cores} cores of {machine.cpu or "an unknown CPU"}, {machine.memory_gb} GB of memory, {machine.system},
Python {machine.python}, Java {machine.java}; {libraries}.

## Figures

“Rounds” are the extremes of repeated measurements of one run, of which “measured” is the median or the best. Each value
that is not a ratio has a “baseline”: the same quantity of something else, measured in the same run. “CPU ratio” is the
ratio of CPU times where the figure compares wall times: the load of the machine does not distort it.

{format_table(report.figures).strip()}

![Measured values relative to their targets]({_NAME}.svg)

## Runs

“Other load” is the mean number of cores that processes outside the benchmark kept busy. Above {_MAX_OTHER_LOAD} cores,
wall times are distorted; ratios of CPU times hardly are. A full run should take less than {MAX_MINUTES} minutes.

{_format_runs(report.runs)}
"""


def plot_margins(figures: list[Figure], path: Path) -> None:
    """Plot by which factor each figure is better or worse than its target."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Plot

    margins = [min(max(figure.margin, 1 / _MAX_PLOTTED_MARGIN), _MAX_PLOTTED_MARGIN) for figure in figures]
    # Text stays text, and the same figures give the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": _NAME}):
        plot = Plot(figsize=(11, 1 + 0.24 * len(figures)))
        axes = plot.subplots()
        axes.barh(
            [f"{figure.measure}: {figure.name}" for figure in figures],
            [margin - 1 for margin in margins],
            left=1,
            color=["#3a7d5c" if figure.is_met else "#b3452c" for figure in figures],
        )
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=0.8)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=7)
        axes.set_xlabel("times better than the target")
        plot.tight_layout()
        plot.savefig(path, metadata={"Date": None})


def _format_exit_code(exit_code: int) -> str:
    if exit_code == NOT_RUN:
        return "not run to its end: the time was up"
    return "" if exit_code == 0 else f"failed with exit code {exit_code}"


def _format_runs(runs: list[MeasureRun]) -> str:
    rows = [
        (
            run.measure,
            f"{run.seconds:,.0f} s",
            f"{run.other_load:.2f}{' (disturbed)' if run.is_disturbed else ''}",
            _format_exit_code(run.exit_code),
        )
        for run in runs
    ]
    head = [("measure", "duration", "other load", ""), ("---",) * 4]
    total = ("total", f"{sum(run.seconds for run in runs):,.0f} s", "", "")
    return "\n".join(f"| {' | '.join(row)} |" for row in (*head, *rows, total))
