"""Fixtures of end-to-end tests: the `clew` command, the demo and the collector as processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges

Clew = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def clew() -> Clew:
    """Return a function that runs `clew` without a terminal and without the caller's settings."""

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
    """Run the demo once and return its data directory."""
    home = tmp_path_factory.mktemp("demo") / "home"
    result = clew("demo", "--home", home)
    assert result.returncode == 0, result.stderr
    (home / "demo.stdout").write_text(result.stdout)
    return home


@dataclass(frozen=True)
class Collector:
    """A running collector."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def start_collector() -> Callable[..., AbstractContextManager[Collector]]:
    """Return a context manager that runs `clew collect` with a data directory and options."""

    @contextmanager
    def start(home: Path, *options: str, prefix: tuple[str, ...] = ()) -> Iterator[Collector]:
        command = [*prefix, sys.executable, "-m", "clew", "collect", "--port", "0", "--home", str(home), *options]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            match = re.search(r":(\d+)/", process.stderr.readline())
            assert match is not None
            try:
                yield Collector(process, int(match[1]))
            finally:
                process.terminate()
                process.wait(20)

    return start


@pytest.fixture(scope="session")
def read_log() -> Callable[[Path], list[Any]]:
    """Return a function that reads the events in the log of a data directory."""

    def read(home: Path) -> list[Any]:
        ranges = split_ranges(home / "log", 0, end_position(home / "log"), 1 << 30)
        return [json.loads(decode_record(line).body) for log_range in ranges for _, line in read_lines(log_range)]

    return read


@pytest.fixture(scope="session")
def mount_namespace() -> list[str]:
    """Return a command prefix that runs a command in its own mount namespace."""
    command = ["unshare", "--map-root-user", "--mount"]
    probe = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    return command
