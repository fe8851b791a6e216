"""Law of capture: an unflagged edge is true, and no dependency is missed, in random pipelines of each library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors
import pytest
from tests.support.perturbation import STEP_ERRORS, Library, check_pipeline

import clew
from clew.capture.diagnostics import error_counts, reset_errors

PIPELINES = 300
BATCH_SIZE = 30
CASES = Path(__file__).parents[2] / "cases" / "perturbation"


def _read_steps(library: str) -> tuple[str, ...]:
    """Return the steps of a library.

    {n} and {m} are numeric columns, {k} is any column, {i} makes names unique, {v} is a number. Lines that are indented
    by two spaces continue a step.
    """
    lines = (CASES / f"{library}.txt").read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if line and not line.startswith("#"))
    return tuple(step.replace("\n  ", "\n") for step in re.split(r"\n(?!  )", text))


def _to_pandas(output: Any) -> pd.DataFrame:
    if isinstance(output, pd.DataFrame):
        return output
    return output.df() if isinstance(output, duckdb.DuckDBPyRelation) else output.to_pandas()


LIBRARIES = {
    "pandas": Library({"pd": pd, "np": np}, "out = a.copy()", _read_steps("pandas")),
    "polars": Library(
        {"pl": pl, "np": np, "cs": polars.selectors},
        "out = a.clone()",
        _read_steps("polars"),
        pl.from_pandas,
        pl.DataFrame.to_pandas,
        (*STEP_ERRORS, pl.exceptions.PolarsError, pl.exceptions.PanicException),
    ),
    "duckdb": Library(
        {"duckdb": duckdb, "pd": pd, "pl": pl},
        "out = duckdb.sql('from a')",
        _read_steps("duckdb"),
        to_pandas=_to_pandas,
        errors=(*STEP_ERRORS, duckdb.Error),
        is_ordered=False,
    ),
}


@pytest.mark.parametrize("first_seed", range(0, PIPELINES, BATCH_SIZE))
@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.filterwarnings("ignore")
def test_edges_are_true_and_complete(name: str, first_seed: int) -> None:
    clew.track()
    reset_errors()
    duckdb.execute("set threads = 1")
    changes = sum(check_pipeline(LIBRARIES[name], seed) for seed in range(first_seed, first_seed + BATCH_SIZE))
    assert changes > BATCH_SIZE, "too few changes for a meaningful test"
    assert error_counts() == {}
