"""Bars as SVG: a picture that needs no library to be drawn, nor anything else to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _ROW, _LABELS, _FIGURES = 860, 22, 300, 110
_LONGEST_LABEL = 46


def bars(values: Sequence[tuple[str, float]], unit: str) -> str:
    """A bar for each value, in the order given."""
    most = max((value for _, value in values), default=0.0) or 1.0
    drawn = "".join(_bar(row, label, value, value / most, unit) for row, (label, value) in enumerate(values))
    height = _ROW * max(len(values), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">{drawn}</svg>'
    )


def _bar(row: int, label: str, value: float, share: float, unit: str) -> str:
    top, width = row * _ROW, max(share, 0.0) * (_WIDTH - _LABELS - _FIGURES)
    middle = top + _ROW / 2 + 4
    # The end of a long name says more than its beginning.
    short = label if len(label) <= _LONGEST_LABEL else f"…{label[1 - _LONGEST_LABEL :]}"
    return (
        f"<g><title>{escape(label)}</title>"
        f'<text x="{_LABELS - 8}" y="{middle}" text-anchor="end">{escape(short)}</text>'
        f'<rect x="{_LABELS}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}" rx="2" fill="#7c5cff"/>'
        f'<text x="{_LABELS + width + 6:.1f}" y="{middle}">{value:,.10g} {escape(unit)}</text></g>'
    )
