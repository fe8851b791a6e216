"""`clew up` as a subprocess of the fault tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

STOP_SECONDS = 120


@contextmanager
def run_service(home: Path, port: int = 0) -> Iterator[tuple[int, str]]:
    """Run `clew up`; yield its process id and its URL."""
    process, url = start_service(home, port)
    try:
        yield process.pid, url
    finally:
        stop_service(process)


def start_service(
    home: Path, port: int = 0, environment: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], str]:
    """Start `clew up`, with additional variables of the environment, and wait until it listens."""
    command = [sys.executable, "-m", "clew", "up", "--port", str(port), "--home", str(home)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    assert process.stderr is not None
    lines: list[str] = []
    for line in iter(process.stderr.readline, ""):
        if match := re.search(r"http://[^ ]+(?=/ )", line):
            # Drained, so that the process does not block on a full pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, match[0]
        lines.append(line)
    raise AssertionError(f"clew up ended with {process.wait()}: {''.join(lines)}")


def stop_service(process: subprocess.Popen[str]) -> None:
    """Stop `clew up`, if it still runs."""
    with suppress(ProcessLookupError):
        process.terminate()
    process.wait(STOP_SECONDS)
    if process.stderr is not None:
        process.stderr.close()


def kind_of(command: str) -> str:
    """Return the kind of a process of `clew up` from its command line, with arguments separated by NUL."""
    if "SparkSubmit" in command:
        return "java"
    if "pipeline\0stream" in command:
        return "pipeline"
    return "server" if "clew\0up" in command else "workers"
