"""HTML of a report page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

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
    """Render a self-contained HTML page."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)} · clew</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{chr(10).join(parts)}\n</body>\n</html>\n"
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
