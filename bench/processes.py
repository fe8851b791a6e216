"""Process trees and their CPU time, from /proc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """Process, and the CPU time of itself and its ended children."""

    id: int
    parent: int
    ticks: int


def list_process_tree(pid: int) -> list[Process]:
    """List a process and its descendants."""
    by_id, children = {}, dict[int, list[int]]()
    for process in _list_processes():
        by_id[process.id] = process
        children.setdefault(process.parent, []).append(process.id)
    pids = [pid]
    for parent in pids:
        pids += children.get(parent, [])
    return [by_id[descendant] for descendant in pids if descendant in by_id]


def cpu_ticks(pid: int) -> int:
    """Sum the CPU time of a process and its descendants, including ended ones."""
    return sum(process.ticks for process in list_process_tree(pid))


def _list_processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            # Ended after the folder was listed.
            continue
        yield Process(int(folder.name), int(fields[1]), sum(map(int, fields[11:15])))
