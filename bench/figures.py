"""Figures, their targets and their baselines: printed, and stored for the summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from bench.rounds import BUILD, FULL_RUN_EVENTS, RunSize
from msgspec import Struct

FIGURES_PATH = BUILD / "figures.jsonl"
# Units of values that are a ratio, a share or a count; others need a baseline.
_RELATIVE_UNITS = ("", "×", " %")


class Baseline(Struct, frozen=True):
    """What a value is compared with: the same quantity, measured in the same run."""

    name: str
    value: float


class Figure(Struct, frozen=True):
    """Measured value and its target, a minimum or a maximum; `low` and `high` are the extremes of repeated rounds.

    A value with a unit of its own has a baseline. A figure without a target is a comparison only. `cpu_ratio` belongs
    to a comparison of wall times: the same ratio of CPU times, which the load of the machine does not distort.
    """

    measure: str
    events: int
    name: str
    value: float
    target: float | None
    is_maximum: bool
    unit: str
    low: float | None = None
    high: float | None = None
    baseline: Baseline | None = None
    cpu_ratio: float | None = None

    def __post_init__(self) -> None:
        if self.baseline is None and self.unit not in _RELATIVE_UNITS:
            message = f"The figure “{self.name}” in{self.unit} has no baseline."
            raise ValueError(message)

    @property
    def is_met(self) -> bool:
        """Whether the target was met."""
        if self.target is None:
            return True
        return self.value <= self.target if self.is_maximum else self.value >= self.target

    @property
    def verdict(self) -> str:
        """`met` or `MISSED`; empty without a target."""
        if self.target is None:
            return ""
        return "met" if self.is_met else "MISSED"

    @property
    def target_text(self) -> str:
        """Formatted target."""
        if self.target is None:
            return ""
        return f"{'≤' if self.is_maximum else '≥'} {_format_number(self.target)}{self.unit}"

    @property
    def value_text(self) -> str:
        """Formatted value."""
        return f"{_format_number(self.value)}{self.unit}"

    @property
    def spread_text(self) -> str:
        """Formatted extremes of the rounds, empty for a single measurement."""
        if self.low is None or self.high is None:
            return ""
        return f"{_format_number(self.low)} to {_format_number(self.high)}"

    @property
    def baseline_text(self) -> str:
        """Formatted baseline and the ratio to it, empty for a value that is a ratio."""
        if self.baseline is None:
            return ""
        value = f"{self.baseline.name}: {_format_number(self.baseline.value)}{self.unit}"
        return f"{value} ({_format_ratio(self.value / self.baseline.value)})" if self.baseline.value else value

    @property
    def cpu_ratio_text(self) -> str:
        """Formatted ratio of CPU times."""
        return "" if self.cpu_ratio is None else _format_number(self.cpu_ratio)

    @property
    def anchor(self) -> str:
        """Name to link to in the report: the measure and the name, without punctuation."""
        return "-".join([self.measure, *re.findall(r"[a-z0-9]+", self.name.lower())])

    @property
    def margin(self) -> float:
        """How many times better than the target; below 1 if it was missed."""
        if self.target is None:
            return 1.0
        better, worse = (self.target, self.value) if self.is_maximum else (self.value, self.target)
        return better / worse if worse else 1.0 if better == worse else float("inf")


@dataclass(frozen=True)
class Report:
    """Figures of one benchmark."""

    measure: str
    run_size: RunSize
    path: Path = FIGURES_PATH

    def log(self, line: str) -> None:
        """Print a line without a target."""
        print(f"  {line}", flush=True)

    def check_min(
        self,
        name: str,
        value: float,
        target: float,
        unit: str = "",
        rounds: Sequence[float] = (),
        baseline: Baseline | None = None,
        cpu_ratio: float | None = None,
    ) -> None:
        """Record a figure and compare it with its minimum."""
        self._record(
            Figure(
                measure=self.measure,
                events=self.run_size.events,
                name=name,
                value=value,
                target=target,
                is_maximum=False,
                unit=unit,
                low=min(rounds, default=None),
                high=max(rounds, default=None),
                baseline=baseline,
                cpu_ratio=cpu_ratio,
            )
        )

    def check_max(
        self,
        name: str,
        value: float,
        target: float,
        unit: str = "",
        rounds: Sequence[float] = (),
        baseline: Baseline | None = None,
        cpu_ratio: float | None = None,
    ) -> None:
        """Record a figure and compare it with its maximum."""
        self._record(
            Figure(
                measure=self.measure,
                events=self.run_size.events,
                name=name,
                value=value,
                target=target,
                is_maximum=True,
                unit=unit,
                low=min(rounds, default=None),
                high=max(rounds, default=None),
                baseline=baseline,
                cpu_ratio=cpu_ratio,
            )
        )

    def compare(
        self,
        name: str,
        value: float,
        unit: str = "",
        rounds: Sequence[float] = (),
        baseline: Baseline | None = None,
        cpu_ratio: float | None = None,
    ) -> None:
        """Record a figure without a target."""
        self._record(
            Figure(
                measure=self.measure,
                events=self.run_size.events,
                name=name,
                value=value,
                target=None,
                is_maximum=False,
                unit=unit,
                low=min(rounds, default=None),
                high=max(rounds, default=None),
                baseline=baseline,
                cpu_ratio=cpu_ratio,
            )
        )

    def _record(self, figure: Figure) -> None:
        baseline = f"; {figure.baseline_text}" if figure.baseline else ""
        cpu = f"; CPU ratio {figure.cpu_ratio_text}" if figure.cpu_ratio is not None else ""
        target = f", target {figure.target_text}: {figure.verdict}" if figure.target is not None else ""
        self.log(f"{figure.name}: {figure.value_text}{target}{baseline}{cpu}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(figure) + b"\n")


def read_figures(path: Path = FIGURES_PATH) -> list[Figure]:
    """Read the stored figures; only the last one of each name."""
    figures = {}
    for line in path.read_bytes().splitlines() if path.exists() else []:
        figure = msgspec.json.decode(line, type=Figure)
        figures[figure.measure, figure.name] = figure
    return list(figures.values())


def format_table(figures: list[Figure]) -> str:
    """Format figures as a Markdown table."""
    rows = [
        (
            f'<a id="{figure.anchor}"></a>{figure.measure}',
            figure.name.replace("|", "\\|"),
            figure.value_text,
            figure.spread_text,
            figure.baseline_text.replace("|", "\\|"),
            figure.cpu_ratio_text,
            figure.target_text,
            _format_verdict(figure),
        )
        for figure in figures
    ]
    head = [
        ("measure", "figure", "measured", "rounds", "baseline (measured / baseline)", "CPU ratio", "target", ""),
        ("---",) * 8,
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (*head, *rows))


def _format_verdict(figure: Figure) -> str:
    # Start-up and fixed costs have more weight in a small run, so its targets mean little.
    size = "" if figure.events >= FULL_RUN_EVENTS else f"({figure.events:,} events)"
    return f"{figure.verdict} {size}".strip()


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3f}×" if ratio < 0.1 else f"{_format_number(ratio)}×"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
