"""Tests of the generated events: reproducible, and similar to those of a scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean, median

import pytest
from tests.support.paths import ROOT

from clew.events.openlineage import decode_openlineage

GENERATE = ROOT / "bench" / "generate.py"


def generate(out: Path, count: int, *options: str) -> list[bytes]:
    subprocess.run([sys.executable, GENERATE, str(count), out, *options], check=True)
    return out.read_bytes().splitlines()


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return generate(tmp_path_factory.mktemp("bench") / "events.jsonl", 4_000)


@pytest.mark.parametrize(("seed", "is_same"), [("7", True), ("8", False)])
def test_a_seed_determines_the_bytes(bodies: list[bytes], tmp_path: Path, seed: str, is_same: bool) -> None:
    assert (generate(tmp_path / "again.jsonl", 4_000, "--seed", seed) == bodies) is is_same


def test_sizes(bodies: list[bytes]) -> None:
    sizes = [len(body) for body in bodies]
    assert len(sizes) == 4_000
    assert 6_000 < fmean(sizes) < 7_000
    assert 5_200 < median(sizes) < 6_400


def test_every_event_is_valid(bodies: list[bytes]) -> None:
    types = Counter(decode_openlineage(body).event_type for body in bodies)
    assert set(types) == {"START", "RUNNING", "COMPLETE", "FAIL", "ABORT"}


def test_about_one_percent_are_duplicates(bodies: list[bytes]) -> None:
    assert 15 <= len(bodies) - len(set(bodies)) <= 80


def test_events_are_ordered_by_time_except_duplicates(bodies: list[bytes]) -> None:
    times = [json.loads(body)["eventTime"] for body in dict.fromkeys(bodies)]
    assert times == sorted(times)


def test_big_events_do_not_change_the_others(bodies: list[bytes], tmp_path: Path) -> None:
    mixed = generate(tmp_path / "big.jsonl", 100, "--big", "2")
    big = [body for body in mixed if len(body) > 800_000]
    assert len(big) == 2
    assert all(len(body) < 11_500_000 for body in big)
    assert [body for body in mixed if body not in big] == bodies[:98]


def test_rejects_more_big_events_than_events(tmp_path: Path) -> None:
    command = [sys.executable, str(GENERATE), "1", str(tmp_path / "none"), "--big", "2"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "--big is 2" in process.stderr
