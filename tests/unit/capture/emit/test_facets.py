from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import DOCS

PAGE = DOCS / "capture.md"


def test_what_the_page_asks_in_place_is_answered_so(tmp_path: Path) -> None:
    shown = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    for code, answer in shown:
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert ended.stdout == answer, ended.stderr
