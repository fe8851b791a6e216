"""Notebooks in the style of public tutorials: Markdown, tables, SQL cells and charts, 59 cells each."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

from clew.capture.launch import capture_command, capture_environment

CELLS = 59
# Cells are separated by blank lines.
_START = """import marimo as mo
import numpy as np
import pandas as pd
import polars as pl
import altair as alt
import duckdb

mo.md("# Rides in four cities")

random, rows = np.random.default_rng(7), 20_000
data = {
    "day": pd.date_range("2024-01-01", periods=rows, freq="h").astype(str),
    "city": random.choice(["Oslo", "Bergen", "Tromsø", "Bodø"], rows),
    "trips": random.integers(1, 500, rows),
    "fare": random.gamma(3.0, 4.0, rows).round(2),
}
pd.DataFrame(data).to_csv("rides.csv", index=False)
path = "rides.csv"

rides = pd.read_csv(path, parse_dates=["day"])
table = pl.from_pandas(rides)"""
_TEXT = 'mo.md("## Part {i}: rides with more than {i}0 trips. Compare the cities by revenue and fare.")'
# The cells of a section, by library. {i} is its number.
_SECTIONS = {
    "pandas": """rides_{i} = rides[rides["trips"] > {i} * 10].assign(revenue=lambda d: d["trips"] * d["fare"])
rides_{i}.head()

by_city_{i} = rides_{i}.groupby("city", as_index=False).agg(revenue=("revenue", "sum"), fare=("fare", "mean"))

by_city_{i}.merge(rides_{i}[["city", "trips"]].drop_duplicates("city"), on="city").sort_values("revenue")""",
    "polars": """rides_{i} = table.filter(pl.col("trips") > {i} * 10).with_columns(revenue=pl.col("trips") * 12.5)

by_city_{i} = rides_{i}.group_by("city").agg(pl.col("revenue").sum(), pl.col("fare").mean()).sort("revenue")

rides_{i}.with_columns(rank=pl.col("fare").rank().over("city")).join(by_city_{i}, on="city").head(100)""",
    "duckdb": """rides_{i} = mo.sql(
    '''
    -- Rides with many trips
    SELECT city, trips, fare, trips * fare AS revenue FROM rides WHERE trips > {i} * 10
    ''', output=False)

by_city_{i} = mo.sql(
    '''
    SELECT city, sum(revenue) AS revenue, avg(fare) AS fare FROM rides_{i}
    GROUP BY city HAVING revenue > 0 ORDER BY ALL
    ''', output=False)

duckdb.sql("SELECT * FROM rides_{i} JOIN by_city_{i} USING (city) LIMIT 100").df()""",
    "altair": """rides_{i} = rides[rides["trips"] > {i} * 10].head(500)
rides_{i}.describe()

by_city_{i} = rides_{i}.groupby("city", as_index=False)["fare"].mean()

alt.Chart(by_city_{i}).mark_bar().encode(x="city", y="fare")""",
}
LIBRARIES = tuple(_SECTIONS)


def write_notebook(path: Path, library: str, count: int = CELLS) -> None:
    """Write a notebook of a number of cells."""
    cells = "\n".join(map(_format_cell, list(_cells(library))[:count]))
    path.write_text(
        f"import marimo\n\napp = marimo.App()\n\n{cells}\n\nif __name__ == '__main__':\n    app.run()\n",
        encoding="utf-8",
    )


def _cells(library: str) -> Iterator[str]:
    yield from _START.split("\n\n")
    for number in range(1, CELLS):
        yield from f"{_TEXT}\n\n{_SECTIONS[library]}".replace("{i}", str(number)).split("\n\n")


def _format_cell(code: str) -> str:
    """Return a cell as a function; marimo finds its variables in the code."""
    return f"@app.cell\ndef _():\n{indent(code, '    ')}\n    return\n"


def measure_notebook(path: Path, streams: Path, repeats: int) -> tuple[float, float]:
    """Measure the least CPU seconds of a notebook without and with capture."""
    environment = {**os.environ, "CLEW_STREAMS": str(streams)}
    captured_environment = capture_environment(environment)
    plain = min(_measure([sys.executable, path.name], path.parent, environment) for _ in range(repeats))
    captured = min(_measure(capture_command([path.name]), path.parent, captured_environment) for _ in range(repeats))
    return plain, captured


def _measure(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
