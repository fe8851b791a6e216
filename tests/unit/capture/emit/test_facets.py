"""Tests of the examples in docs/capture.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import DOCS

PAGE = DOCS / "capture.md"


def test_documented_examples_print_the_documented_output(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for code, output in examples:
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert process.stdout == output, process.stderr
