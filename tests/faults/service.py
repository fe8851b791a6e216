"""`clew up` as a subprocess of the fault tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 120
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
    home: Path, port: int = 0, environment: Mapping[str, str] | None = None, command_name: str = "up"
) -> tuple[subprocess.Popen[bytes], str]:
    """Start `clew up` or another server, with additional variables of the environment, and wait until it listens.

    Its output is in a file beside the data directory: a pipe would stay open in processes that survive it.
    """
    command = [sys.executable, "-m", "clew", command_name, "--port", str(port), "--home", str(home)]
    path = home.with_suffix(".output")
    with path.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(command, stderr=output, env={**os.environ, **(environment or {})})
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        text = path.read_bytes()[start:].decode(errors="replace")
        if match := re.search(r"http://[^ ]+(?=/ )", text):
            return process, match[0]
        if process.poll() is not None:
            raise AssertionError(f"clew {command_name} ended with {process.returncode}: {text}")
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise AssertionError(f"clew {command_name} did not start: {text}")


def stop_service(process: subprocess.Popen[bytes]) -> None:
    """Stop a server, if it still runs."""
    process.terminate()
    process.wait(STOP_SECONDS)


def kind_of(command: str) -> str:
    """Return the kind of a process of a service from its command line, with arguments separated by NUL."""
    if "SparkSubmit" in command:
        return "java"
    if "pipeline\0stream" in command:
        return "pipeline"
    return "server" if "clew\0up" in command or "clew\0collect" in command else "workers"
