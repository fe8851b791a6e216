"""Figures and the bars that they are held against: printed as they come, and kept for the summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
from bench.rounds import BUILD, FULL, Round
from msgspec import Struct

KEPT = BUILD / "figures.jsonl"


class Figure(Struct, frozen=True):
    """What was measured; `bar` is what it must reach, or must not exceed."""

    measure: str
    events: int
    what: str
    value: float
    bar: float
    is_ceiling: bool
    unit: str

    @property
    def is_met(self) -> bool:
        """Whether the bar was met."""
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar

    @property
    def verdict(self) -> str:
        """Whether the bar was met, in a word."""
        return "met" if self.is_met else "MISSED"

    @property
    def limit(self) -> str:
        """The bar, as people write it."""
        return f"{'≤' if self.is_ceiling else '≥'} {_number(self.bar)}{self.unit}"

    @property
    def text(self) -> str:
        """The value, as people write it."""
        return f"{_number(self.value)}{self.unit}"


@dataclass(frozen=True)
class Report:
    """The figures of one measure."""

    measure: str
    round: Round
    kept: Path = KEPT

    def say(self, line: str) -> None:
        """Tell something that has no bar."""
        print(f"  {line}", flush=True)

    def at_least(self, what: str, value: float, bar: float, unit: str = "") -> None:
        """Hold a figure against what it must reach."""
        self._tell(Figure(self.measure, self.round.events, what, value, bar, is_ceiling=False, unit=unit))

    def at_most(self, what: str, value: float, bar: float, unit: str = "") -> None:
        """Hold a figure against what it must not exceed."""
        self._tell(Figure(self.measure, self.round.events, what, value, bar, is_ceiling=True, unit=unit))

    def _tell(self, figure: Figure) -> None:
        self.say(f"{figure.what}: {figure.text}, bar {figure.limit}: {figure.verdict}")
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        with self.kept.open("ab") as file:
            file.write(msgspec.json.encode(figure) + b"\n")


def kept_figures(kept: Path = KEPT) -> list[Figure]:
    """All figures that were kept; of those taken again, the last."""
    found = {}
    for line in kept.read_bytes().splitlines() if kept.exists() else []:
        figure = msgspec.json.decode(line, type=Figure)
        found[figure.measure, figure.what] = figure
    return list(found.values())


def table_of(figures: list[Figure]) -> str:
    """A table in Markdown, a row per figure."""
    rows = [(one.measure, one.what, one.text, one.limit, _verdict_of_round(one)) for one in figures]
    head = [("measure", "figure", "measured", "bar", ""), ("---",) * 5]
    return "".join(f"| {' | '.join(row)} |\n" for row in (*head, *rows))


def _verdict_of_round(figure: Figure) -> str:
    # Start-up and fixed costs weigh more on few events, so a bar says little of a smaller round.
    return figure.verdict if figure.events >= FULL else f"{figure.verdict} ({figure.events:,} events)"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.2f}"
