"""The `clew` command, run from outside as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Clew = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def clew() -> Clew:
    """Run `clew` with arguments, no terminal attached; settings of the caller stay out of it."""

    def run(*arguments: str | Path, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLEW_", "OPENLINEAGE_"))
        }
        return subprocess.run(
            [sys.executable, "-m", "clew", *map(str, arguments)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            env={**inherited, **environment},
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def demo_home(clew: Clew, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the demo has run once."""
    home = tmp_path_factory.mktemp("demo") / "home"
    ended = clew("demo", "--home", home)
    assert ended.returncode == 0, ended.stderr
    (home / "demo.stdout").write_text(ended.stdout)
    return home
