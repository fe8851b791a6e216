"""Peak memory of a command and its child processes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.processes import list_process_tree

_POLL_SECONDS = 0.1
_SIZES = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """Sum of several processes in bytes; shared pages count once in `pss`, and once per process in `rss`."""

    rss: int
    pss: int


def run_and_measure_peak(command: list[str]) -> tuple[Memory, subprocess.CompletedProcess[str]]:
    """Run a command, and return the peak of its memory and its result."""
    samples = [Memory(0, 0)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                stdout, stderr = process.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                samples.append(measure_memory(process.pid))
    peak = Memory(max(sample.rss for sample in samples), max(sample.pss for sample in samples))
    return peak, subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def measure_memory(pid: int) -> Memory:
    """Measure the current memory of a process and its descendants."""
    sizes = [_read_memory(process.id) for process in list_process_tree(pid)]
    return Memory(sum(size.rss for size in sizes), sum(size.pss for size in sizes))


def _read_memory(pid: int) -> Memory:
    try:
        sizes = dict(_SIZES.findall(Path(f"/proc/{pid}/smaps_rollup").read_text()))
    except OSError:
        # Ended after it was listed.
        return Memory(0, 0)
    return Memory(int(sizes.get("Rss", 0)) << 10, int(sizes.get("Pss", 0)) << 10)
