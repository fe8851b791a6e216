"""The index of a small notebook run, and of a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def shop(story: Any) -> Path:
    """Return the index of a notebook that reads a file, computes a column, fails once, and writes a file."""
    session = story.session("6ac33987", "shop")
    session.run("START")
    columns = {"price": [("orders.csv", "price")], "qty": [("orders.csv", "qty")]}
    session.operation("load", "orders@1", columns, code="pd.read_csv('orders.csv')")
    total = [("orders@1", "price", "TRANSFORMATION"), ("orders@1", "qty", "TRANSFORMATION")]
    session.operation(
        "compute",
        "orders@2",
        {"total": total, None: [("orders@1", "status", "FILTER")]},
        code="orders['total'] = orders['price'] * orders['qty']",
        duration_ms=90.0,
    )
    session.operation("margin", "margin@1", {}, error="'cost'")
    session.operation("save", "totals.parquet", {"total": [("orders@2", "total")]}, code="orders.to_parquet(path)")
    session.run("FAIL")
    path: Path = story.tell()
    return path


@pytest.fixture
def large(story: Any) -> Path:
    """Return the index of a run far larger than a small budget."""
    session = story.session()
    for number in range(200):
        session.operation(f"step_{number}", f"frame_{number}", {"column": [("orders.csv", "price")]})
    path: Path = story.tell()
    return path
