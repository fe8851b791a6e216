"""Tests of the entry point for spark-submit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from clew.pipeline import submit


def test_prints_its_path() -> None:
    command = [sys.executable, "-m", "clew.pipeline.submit", "--path"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == submit.__file__


def test_runs_a_command_as_a_script_without_hiding_other_modules(tmp_path: Path) -> None:
    command = [sys.executable, submit.__file__, "pipeline", "status", "--home", str(tmp_path / "none")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("clew: There is no lake at ")
