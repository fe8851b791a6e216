"""The `clew` command, run from outside as a person would."""

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


@dataclass(frozen=True)
class Collector:
    """A collector at work."""

    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        """Where producers find it."""
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
def collecting() -> Callable[..., AbstractContextManager[Collector]]:
    """Start `clew collect` with a home and options; it is stopped in the end."""

    @contextmanager
    def started(home: Path, *options: str, within: tuple[str, ...] = ()) -> Iterator[Collector]:
        command = [*within, sys.executable, "-m", "clew", "collect", "--port", "0", "--home", str(home), *options]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            found = re.search(r":(\d+)/", process.stderr.readline())
            assert found is not None
            try:
                yield Collector(process, int(found[1]))
            finally:
                process.terminate()
                process.wait(20)

    return started


@pytest.fixture(scope="session")
def stored() -> Callable[[Path], list[Any]]:
    """Read the events that the log of a home holds."""

    def read(home: Path) -> list[Any]:
        parts = split_ranges(home / "log", 0, end_position(home / "log"), 1 << 30)
        return [json.loads(decode_record(text).body) for part in parts for _, text in read_lines(part)]

    return read


@pytest.fixture(scope="session")
def namespace() -> list[str]:
    """What runs a command with mounts of its own."""
    command = ["unshare", "--map-root-user", "--mount"]
    probe = [*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    return command
