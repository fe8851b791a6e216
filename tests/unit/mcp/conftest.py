"""Fixtures of MCP tests: indexes of a small and of a large notebook run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def shop(notebook_events: Any) -> Path:
    """Return the index of a notebook that reads a file, computes a column, fails once, and writes a file."""
    session = notebook_events.session("6ac33987", "shop")
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
    path: Path = notebook_events.index_events()
    return path


@pytest.fixture
def large(notebook_events: Any) -> Path:
    """Return the index of a run far larger than a small budget."""
    session = notebook_events.session()
    for number in range(200):
        session.operation(f"step_{number}", f"frame_{number}", {"column": [("orders.csv", "price")]})
    path: Path = notebook_events.index_events()
    return path
