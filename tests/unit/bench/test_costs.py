"""CPU and memory of a whole family of processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest
from bench.costs import Cost, measured
from bench.memory import held_by, peak_of

BURN = "import time\nwhile time.process_time() < 0.3: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
HOLD = "held = bytearray(b'x') * 50_000_000; print('held', flush=True); input()"
FORK = "import os; held = bytearray(b'x') * 50_000_000; os.fork() and print('held', flush=True); input()"


def burn() -> None:
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("work", [burn, partial(run, BURN), partial(run, CHILD)], ids=["here", "child", "grandchild"])
def test_cpu_of_all_below_is_counted(work: Callable[[], None]) -> None:
    assert measured(work).cpu >= 0.28


def test_waiting_costs_no_cpu() -> None:
    cost = measured(partial(run, "import time; time.sleep(0.3)"))
    assert cost.wall >= 0.3
    assert cost.cpu < cost.wall


def test_costs_add_up() -> None:
    assert Cost(1, 2) + Cost(3, 4) == Cost(4, 6)
    assert Cost(wall=2, cpu=4).rate(8_000) == "   2,000 events per CPU-second (0.50 ms each),    4,000 per second"


@pytest.mark.parametrize(("code", "rss_megabytes"), [(HOLD, 50), (FORK, 100)], ids=["one", "forked"])
def test_memory_counts_shared_pages_once(code: str, rss_megabytes: int) -> None:
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        held = held_by(process.pid)
        process.communicate()
    assert held.rss > rss_megabytes * 1e6
    assert 50e6 < held.pss < 95e6


def test_what_a_command_says_is_kept() -> None:
    _, ended = peak_of([sys.executable, "-c", "import sys; print('said'); sys.exit('complained')"])
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "said\n", "complained\n")
