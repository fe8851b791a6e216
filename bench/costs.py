"""Cost of work: wall time, and CPU time of this process, the JVM and all workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.processes import cpu_ticks

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of wall and CPU time."""

    wall: float
    cpu: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def rate(self, events: int) -> str:
        """Format the events per second of CPU and of wall time."""
        return (
            f"{events / self.cpu:8,.0f} events per CPU-second ({1000 * self.cpu / events:.2f} ms each),"
            f" {events / self.wall:8,.0f} per second"
        )


def measure_cost(function: Callable[[], object]) -> Cost:
    """Run a function, and measure the cost in this process and its descendants."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    function()
    return Cost(time.perf_counter() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """CPU time of this process and its descendants, including ended ones."""
    return cpu_ticks(os.getpid()) / TICKS_PER_SECOND
