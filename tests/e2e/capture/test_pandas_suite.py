"""A part of pandas' own tests under capture; `make test-pandas` runs all that matter."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

PROGRAM = ROOT / "scripts" / "pandas_suite.py"
# Where the user's stack, references and callbacks matter, and the rules that look furthest into their arguments.
CHOSEN = (
    "copy_view/test_chained_assignment_deprecation.py",
    "frame/indexing/test_setitem.py",
    "frame/methods/test_assign.py",
    "frame/test_query_eval.py",
    "groupby/aggregate/test_aggregate.py",
    "reshape/merge/test_join.py",
    "series/methods/test_case_when.py",
    "test_col.py",
)


def test_no_test_of_pandas_fails_under_capture_alone() -> None:
    ended = subprocess.run([sys.executable, PROGRAM, *CHOSEN], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    assert "under capture" in ended.stdout
