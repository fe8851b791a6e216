"""Figures and their targets: printed, and stored for the summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from bench.rounds import BUILD, FULL_RUN_EVENTS, RunSize
from msgspec import Struct

FIGURES_PATH = BUILD / "figures.jsonl"


class Figure(Struct, frozen=True):
    """Measured value and its target, a minimum or a maximum; `low` and `high` are the extremes of repeated rounds."""

    measure: str
    events: int
    name: str
    value: float
    target: float
    is_maximum: bool
    unit: str
    low: float | None = None
    high: float | None = None

    @property
    def is_met(self) -> bool:
        """Whether the target was met."""
        return self.value <= self.target if self.is_maximum else self.value >= self.target

    @property
    def verdict(self) -> str:
        """`met` or `MISSED`."""
        return "met" if self.is_met else "MISSED"

    @property
    def target_text(self) -> str:
        """Formatted target."""
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
    def margin(self) -> float:
        """How many times better than the target; below 1 if it was missed."""
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

    def check_min(self, name: str, value: float, target: float, unit: str = "", rounds: Sequence[float] = ()) -> None:
        """Record a figure and compare it with its minimum."""
        self._record(self._figure(name, value, target, unit, rounds, is_maximum=False))

    def check_max(self, name: str, value: float, target: float, unit: str = "", rounds: Sequence[float] = ()) -> None:
        """Record a figure and compare it with its maximum."""
        self._record(self._figure(name, value, target, unit, rounds, is_maximum=True))

    def _figure(
        self, name: str, value: float, target: float, unit: str, rounds: Sequence[float], *, is_maximum: bool
    ) -> Figure:
        low, high = (min(rounds), max(rounds)) if rounds else (None, None)
        return Figure(self.measure, self.run_size.events, name, value, target, is_maximum, unit, low, high)

    def _record(self, figure: Figure) -> None:
        self.log(f"{figure.name}: {figure.value_text}, target {figure.target_text}: {figure.verdict}")
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
            figure.measure,
            figure.name.replace("|", "\\|"),
            figure.value_text,
            figure.spread_text,
            figure.target_text,
            _format_verdict(figure),
        )
        for figure in figures
    ]
    head = [("measure", "figure", "measured", "rounds", "target", ""), ("---",) * 6]
    return "".join(f"| {' | '.join(row)} |\n" for row in (*head, *rows))


def _format_verdict(figure: Figure) -> str:
    # Start-up and fixed costs have more weight in a small run, so its targets mean little.
    return figure.verdict if figure.events >= FULL_RUN_EVENTS else f"{figure.verdict} ({figure.events:,} events)"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
