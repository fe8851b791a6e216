"""HTML pages and bar charts of reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from clew.query.exports import content_policy

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


_STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; vertical-align: top; border-bottom: 1px solid #8884; }
td { max-width: 28rem; overflow-wrap: anywhere; }
.quiet { opacity: .7; }
"""


def render_page(title: str, *parts: str) -> str:
    """Render a self-contained HTML page, which runs no script and loads nothing."""
    body = f"<body>\n<h1>{escape(title)}</h1>\n{chr(10).join(parts)}\n</body>\n</html>\n"
    # Texts are escaped: these are the styles of the page and of its pictures.
    styles = [_STYLE, *re.findall(r"<style>(.*?)</style>", body, re.DOTALL)]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{content_policy(styles=styles)}\n'
        f"<title>{escape(title)} · clew</title>\n<style>{_STYLE}</style>\n</head>\n{body}"
    )


def render_paragraph(text: str) -> str:
    """Render a paragraph."""
    return f"<p>{escape(text)}</p>"


def render_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Render rows as an HTML table."""
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_format_value(value))}</td>' for value in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>'


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
