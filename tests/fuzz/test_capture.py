"""Random pipelines under capture, many times those of the e2e tests (`make test-fuzz FUZZ_PIPELINES=1000`).

Each pipeline is checked with the oracle of `tests/support/perturbation.py`: no dependency is missed, and an edge
without a flag is true. Over-reporting is the share of all edges of the steps, flagged ones included, whose target
changes with no perturbation of the source.
"""

from __future__ import annotations

import os

import duckdb
import pytest
from tests.e2e.capture.test_perturbation import LIBRARIES
from tests.support.perturbation import check_pipeline, count_over_reported

import clew
from clew.capture.diagnostics import error_counts, reset_errors

PIPELINES = int(os.environ.get("FUZZ_PIPELINES", "100"))
# Behind the seeds of the e2e tests.
FIRST_SEED = int(os.environ.get("FUZZ_SEED", "1")) * 100_000
MAX_OVER_REPORTED = 0.05


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.filterwarnings("ignore")
def test_random_pipelines(name: str) -> None:
    clew.track()
    reset_errors()
    duckdb.execute("set threads = 1")
    failures, changes, false_edges, edges = [], 0, 0, 0
    for seed in range(FIRST_SEED, FIRST_SEED + PIPELINES):
        try:
            changes += check_pipeline(LIBRARIES[name], seed)
        except AssertionError as error:
            failures.append(str(error))
            continue
        false_count, count = count_over_reported(LIBRARIES[name], seed)
        false_edges += false_count
        edges += count
    print(f"{name}: {PIPELINES} pipelines, {changes} dependencies, {edges} edges, {false_edges} over-reported")  # noqa: T201
    assert not failures, f"{len(failures)} pipelines, the first: {failures[0]}"
    assert changes > PIPELINES, "too few changes for a meaningful test"
    assert false_edges <= MAX_OVER_REPORTED * edges
    assert error_counts() == {}
