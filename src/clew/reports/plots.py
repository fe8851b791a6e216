"""Bar charts as inline SVG, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_WIDTH, _ROW_HEIGHT, _LABEL_WIDTH, _VALUE_WIDTH = 860, 22, 300, 110
_MAX_LABEL_CHARS = 46


def render_bar_chart(values: Sequence[tuple[str, float]], unit: str) -> str:
    """Render a bar per value, in the given order."""
    max_value = max((value for _, value in values), default=0.0) or 1.0
    bars = "".join(_render_bar(row, label, value, value / max_value, unit) for row, (label, value) in enumerate(values))
    height = _ROW_HEIGHT * max(len(values), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">{bars}</svg>'
    )


def _render_bar(row: int, label: str, value: float, share: float, unit: str) -> str:
    top, width = row * _ROW_HEIGHT, max(share, 0.0) * (_WIDTH - _LABEL_WIDTH - _VALUE_WIDTH)
    middle = top + _ROW_HEIGHT / 2 + 4
    # Truncate at the start: the end of a long name is more specific.
    short = label if len(label) <= _MAX_LABEL_CHARS else f"…{label[1 - _MAX_LABEL_CHARS :]}"
    return (
        f"<g><title>{escape(label)}</title>"
        f'<text x="{_LABEL_WIDTH - 8}" y="{middle}" text-anchor="end">{escape(short)}</text>'
        f'<rect x="{_LABEL_WIDTH}" y="{top + 4}" width="{width:.1f}" height="{_ROW_HEIGHT - 8}" rx="2" fill="#7c5cff"/>'
        f'<text x="{_LABEL_WIDTH + width + 6:.1f}" y="{middle}">{value:,.10g} {escape(unit)}</text></g>'
    )
