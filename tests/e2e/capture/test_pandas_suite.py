"""Tests of a part of pandas' own test suite under capture; `make test-pandas` runs all relevant tests."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = ROOT / "scripts" / "pandas_suite.py"
# Tests that depend on the stack, references or callbacks, or on rules that inspect arguments deeply.
TEST_FILES = (
    "copy_view/test_chained_assignment_deprecation.py",
    "frame/indexing/test_setitem.py",
    "frame/methods/test_assign.py",
    "frame/test_query_eval.py",
    "groupby/aggregate/test_aggregate.py",
    "reshape/merge/test_join.py",
    "series/methods/test_case_when.py",
    "test_col.py",
)


def test_no_pandas_test_fails_only_under_capture() -> None:
    result = subprocess.run([sys.executable, PROGRAM, *TEST_FILES], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "under capture" in result.stdout
