"""Tests of CPU and memory measurements of process trees."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest
from bench.costs import Cost, measure_cost
from bench.memory import measure_memory, run_and_measure_peak

BURN_CPU = "import time\nwhile time.process_time() < 0.3: pass"
BURN_IN_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN_CPU!r}], check=True)"
ALLOCATE = "data = bytearray(b'x') * 50_000_000; print('allocated', flush=True); input()"
ALLOCATE_AND_FORK = (
    "import os; data = bytearray(b'x') * 50_000_000; os.fork() and print('allocated', flush=True); input()"
)


def burn_cpu() -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def run_python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "work",
    [burn_cpu, partial(run_python, BURN_CPU), partial(run_python, BURN_IN_CHILD)],
    ids=["this process", "child", "grandchild"],
)
def test_counts_the_cpu_of_descendants(work: Callable[[], None]) -> None:
    assert measure_cost(work).cpu >= 0.28


def test_sleeping_costs_no_cpu() -> None:
    cost = measure_cost(partial(run_python, "import time; time.sleep(0.3)"))
    assert cost.wall >= 0.3
    assert cost.cpu < cost.wall


def test_adds_and_formats_costs() -> None:
    assert Cost(1, 2) + Cost(3, 4) == Cost(4, 6)
    assert Cost(wall=2, cpu=4).rate(8_000) == "   2,000 events per CPU-second (0.50 ms each),    4,000 per second"


@pytest.mark.parametrize(
    ("code", "rss_megabytes"), [(ALLOCATE, 50), (ALLOCATE_AND_FORK, 100)], ids=["single", "forked"]
)
def test_memory_counts_shared_pages_once(code: str, rss_megabytes: int) -> None:
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"allocated\n"
        memory = measure_memory(process.pid)
        process.communicate()
    assert memory.rss > rss_megabytes * 1e6
    assert 50e6 < memory.pss < 95e6


def test_captures_the_output_of_a_command() -> None:
    _, process = run_and_measure_peak([sys.executable, "-c", "import sys; print('output'); sys.exit('error')"])
    assert (process.returncode, process.stdout, process.stderr) == (1, "output\n", "error\n")
