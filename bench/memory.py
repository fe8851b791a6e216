"""The most memory that a command and all its processes hold at one time."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.processes import family

_SECONDS_BETWEEN_LOOKS = 0.1
_SIZES = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """Bytes held together; in `pss` a page that several processes share counts once, in `rss` once for each."""

    rss: int
    pss: int


def peak_of(command: list[str]) -> tuple[Memory, subprocess.CompletedProcess[str]]:
    """Run a command to its end, and give the greatest of each figure that was seen meanwhile."""
    seen = [Memory(0, 0)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                said, complained = process.communicate(timeout=_SECONDS_BETWEEN_LOOKS)
                break
            except subprocess.TimeoutExpired:
                seen.append(held_by(process.pid))
    peak = Memory(max(one.rss for one in seen), max(one.pss for one in seen))
    return peak, subprocess.CompletedProcess(command, process.returncode, said, complained)


def held_by(root: int) -> Memory:
    """What a process and its descendants hold now."""
    held = [_held(process.id) for process in family(root)]
    return Memory(sum(one.rss for one in held), sum(one.pss for one in held))


def _held(process: int) -> Memory:
    try:
        sizes = dict(_SIZES.findall(Path(f"/proc/{process}/smaps_rollup").read_text()))
    except OSError:
        # It has ended since it was listed.
        return Memory(0, 0)
    return Memory(int(sizes.get("Rss", 0)) << 10, int(sizes.get("Pss", 0)) << 10)
