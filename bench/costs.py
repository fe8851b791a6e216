"""What a piece of work takes: wall time, and the CPU time of this process, the JVM and all workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.processes import ticks

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds that a piece of work took."""

    wall: float
    cpu: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def rate(self, events: int) -> str:
        """Events per second of CPU and of wall time."""
        return (
            f"{events / self.cpu:8,.0f} events per CPU-second ({1000 * self.cpu / events:.2f} ms each),"
            f" {events / self.wall:8,.0f} per second"
        )


def measured(work: Callable[[], object]) -> Cost:
    """What some work took, in this process and all below it."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    work()
    return Cost(time.perf_counter() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """CPU time of this process and its descendants, those that have ended included."""
    return ticks(os.getpid()) / TICKS
