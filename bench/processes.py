"""Processes as the kernel tells of them: one, and all that it has started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process, and the CPU time that it and its ended children took."""

    id: int
    parent: int
    ticks: int


def family(root: int) -> list[Process]:
    """A process and its descendants."""
    by_id, children = {}, dict[int, list[int]]()
    for process in _all():
        by_id[process.id] = process
        children.setdefault(process.parent, []).append(process.id)
    found = [root]
    for one in found:
        found += children.get(one, [])
    return [by_id[one] for one in found if one in by_id]


def ticks(root: int) -> int:
    """CPU time of a process and its descendants, also those that have ended."""
    return sum(process.ticks for process in family(root))


def _all() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # It has ended since the folder was listed.
            continue
        yield Process(int(folder.name), int(fields[1]), sum(map(int, fields[11:15])))
