"""Figures and their targets: printed, and stored for the summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
from bench.rounds import BUILD, FULL_RUN_EVENTS, RunSize
from msgspec import Struct

FIGURES_PATH = BUILD / "figures.jsonl"


class Figure(Struct, frozen=True):
    """Measured value and its target, a minimum or a maximum."""

    measure: str
    events: int
    name: str
    value: float
    target: float
    is_maximum: bool
    unit: str

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


@dataclass(frozen=True)
class Report:
    """Figures of one benchmark."""

    measure: str
    run_size: RunSize
    path: Path = FIGURES_PATH

    def log(self, line: str) -> None:
        """Print a line without a target."""
        print(f"  {line}", flush=True)

    def check_min(self, name: str, value: float, target: float, unit: str = "") -> None:
        """Record a figure and compare it with its minimum."""
        self._record(Figure(self.measure, self.run_size.events, name, value, target, is_maximum=False, unit=unit))

    def check_max(self, name: str, value: float, target: float, unit: str = "") -> None:
        """Record a figure and compare it with its maximum."""
        self._record(Figure(self.measure, self.run_size.events, name, value, target, is_maximum=True, unit=unit))

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
        (figure.measure, figure.name, figure.value_text, figure.target_text, _format_verdict(figure))
        for figure in figures
    ]
    head = [("measure", "figure", "measured", "target", ""), ("---",) * 5]
    return "".join(f"| {' | '.join(row)} |\n" for row in (*head, *rows))


def _format_verdict(figure: Figure) -> str:
    # Start-up and fixed costs have more weight in a small run, so its targets mean little.
    return figure.verdict if figure.events >= FULL_RUN_EVENTS else f"{figure.verdict} ({figure.events:,} events)"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
