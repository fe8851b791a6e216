"""Format numbers for people."""

from __future__ import annotations


def format_duration(milliseconds: float | None) -> str:
    """Format milliseconds as ms, s or min."""
    if milliseconds is None:
        return "?"
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds // 60_000:.0f} min {milliseconds % 60_000 / 1000:.0f} s"


def format_megabytes(amount: float | None) -> str:
    """Format an amount of memory."""
    return "?" if amount is None else f"{amount:,.0f} MB"


def format_shape(rows: int | None, columns: int) -> str:
    """Format rows × columns."""
    return f"{'?' if rows is None else f'{rows:,}'} × {columns}"


def format_count(number: int, singular: str, plural: str | None = None) -> str:
    """Format a count: `1 cell`, `2 cells`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def format_bytes(amount: int) -> str:
    """Format bytes as kB, MB or GB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:,.1f} {unit}"
    return f"{amount} B"
