"""Baselines in plain Python, without clew: parsing, compression, start-up and graphs in dictionaries."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from bench.memory import Memory, run_and_measure_peak

_REPEATS = 3
_SAMPLE_EVENTS = 2_000
_PARSE_FILE = """
import gzip, json, sys
with gzip.open(sys.argv[1]) as file:
    print(sum(len(json.loads(line)) for line in file))
"""


def measure_import_cpu(modules: Iterable[str]) -> float:
    """Measure the CPU seconds of a Python process that imports modules: best of 3."""
    code = f"import {', '.join(modules)}, time; print(time.process_time())"
    return min(float(run_python("-c", code)) for _ in range(_REPEATS))


def measure_module_import(module: str) -> float:
    """Measure the CPU seconds of importing a module in a running Python: best of 3."""
    code = f"import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
    return min(float(run_python("-c", code)) for _ in range(_REPEATS))


def measure_parsing_memory(path: Path) -> Memory:
    """Measure the peak memory of a process that parses each event of a gzip file with the standard library."""
    peak, _ = run_and_measure_peak([sys.executable, "-c", _PARSE_FILE, str(path)])
    return peak


def measure_parsing_cpu(bodies: list[bytes]) -> float:
    """Measure the CPU seconds of parsing events with the standard library."""
    start = time.process_time()
    for body in bodies:
        json.loads(body)
    return time.process_time() - start


def measure_gzip_bytes(bodies: Iterable[bytes]) -> float:
    """Measure the bytes per event of a gzip file with one event per line, from the first 2,000."""
    sample = list(islice(bodies, _SAMPLE_EVENTS))
    return len(gzip.compress(b"\n".join(sample), compresslevel=6)) / len(sample)


def run_python(*arguments: str) -> str:
    """Run Python, and return its output."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout
