"""Numbers as a person reads them."""

from __future__ import annotations


def duration(milliseconds: float | None) -> str:
    """Milliseconds below a second, seconds below a minute."""
    if milliseconds is None:
        return "?"
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds // 60_000:.0f} min {milliseconds % 60_000 / 1000:.0f} s"


def megabytes(amount: float | None) -> str:
    """Memory without false precision."""
    return "?" if amount is None else f"{amount:,.0f} MB"


def shape(rows: int | None, columns: int) -> str:
    """Rows × columns of a dataset."""
    return f"{'?' if rows is None else f'{rows:,}'} × {columns}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def filesize(amount: int) -> str:
    """Bytes as kB, MB or GB."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:,.1f} {unit}"
    return f"{amount} B"
