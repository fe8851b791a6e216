"""pandas' own tests, without capture and under it: no test may fail that did not fail before.

    python scripts/pandas_suite.py frame/methods groupby -- -k "not slow"

Without folders, all of those that capture looks on at. A test that fails only because a warning points into pandas
instead of at the test is counted and let through: pandas locates some warnings by counting frames.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

FOLDERS = (
    "frame/methods",
    "frame/indexing",
    "frame/test_query_eval.py",
    "frame/test_reductions.py",
    "indexing",
    "copy_view",
    "test_col.py",
    "reshape/merge",
    "reshape/concat",
    "groupby",
    "series/methods",
    "series/indexing",
    "strings",
    "window",
    "resample",
)
_TESTS = Path(pd.__file__).parent / "tests"
_LOSSES = "CLEW_SUITE_LOSSES"
_LOCATION = "Warning not set with correct stacklevel"


class Outcome(NamedTuple):
    """What one round gave: how many tests passed, and the failures by their names."""

    passed: int
    failures: dict[str, str]
    losses: Counter[str]


def pytest_configure() -> None:
    """As a plugin of pytest: turn capture on in this process, which may be one of several."""
    import clew

    clew.track()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Let each test be a cell of its own."""
    from clew.capture.environments.session import Cell, Execution, Session, enter_execution, leave_execution

    token = enter_execution(Execution(Session("pandas"), Cell("test", "")))
    try:
        return (yield)
    finally:
        leave_execution(token)


def pytest_sessionfinish() -> None:
    """Leave a note of what capture lost."""
    from clew.capture.diagnostics import error_counts

    lines = [f"{times} {place}\n" for place, times in error_counts().items()]
    Path(os.environ[_LOSSES], f"{os.getpid()}.losses").write_text("".join(lines), encoding="utf-8")


def run(folders: list[str], options: list[str], *, captured: bool) -> Outcome:
    """Run tests once."""
    with tempfile.TemporaryDirectory(prefix="clew-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", f"--junitxml={report}"),
            *(
                "-c",
                os.devnull,
                "--rootdir",
                str(_TESTS),
                "-p",
                "no:cacheprovider",
                "-W",
                "ignore::pytest.PytestConfigWarning",
            ),
            *(("-p", Path(__file__).stem) if captured else ()),
            *[str(_TESTS / folder) for folder in folders],
            *options,
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), _LOSSES: scratch}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not report.is_file():
            sys.exit(f"pytest ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        return _outcome(ET.parse(report).getroot(), _lost(Path(scratch)))  # noqa: S314 - our own file


def _outcome(report: Any, lost: Counter[str]) -> Outcome:
    passed, failures = 0, {}
    for case in report.iter("testcase"):
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        if fault is not None:
            failures[f"{case.get('classname')}::{case.get('name')}"] = f"{fault.get('message')}\n{fault.text}"
        elif case.find("skipped") is None:
            passed += 1
    return Outcome(passed, failures, lost)


def _lost(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in folder.glob("*.losses"):
        for line in file.read_text(encoding="utf-8").splitlines():
            times, place = line.split(" ", 1)
            found[place] += int(times)
    return found


def main(arguments: list[str]) -> int:
    """Run both rounds and tell the difference."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    folders, options = arguments[:cut] or list(FOLDERS), arguments[cut + 1 :]
    before, after = (run(folders, options, captured=captured) for captured in (False, True))
    new = {name: text for name, text in after.failures.items() if name not in before.failures}
    located = [name for name, text in new.items() if _LOCATION in text]
    broken = {name: text for name, text in new.items() if name not in located}
    print(f"without capture: {before.passed} passed, {len(before.failures)} failed")
    print(f"under capture:   {after.passed} passed, {len(after.failures)} failed")
    print(f"of these, {len(located)} only by where a warning points, and {len(broken)} otherwise")
    print(f"operations that capture lost: {dict(after.losses.most_common()) or 'none'}")
    for name, text in broken.items():
        print(f"\n{name}\n{text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
