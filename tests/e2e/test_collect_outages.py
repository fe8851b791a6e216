"""What a machine can do to a collector: no room left. It says so, goes on when there is room, and loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

DISK = "2m"
# Mounts a small disk, tells the collector's own words, and makes the disk larger when it is told to.
SMALL_DISK = r"""
mount -t tmpfs -o size=$DISK tmpfs "$PLACE"
"$@" < /dev/null &
trap 'kill $!; wait $!; exit 0' TERM
read -r _
mount -o remount,size=90m "$PLACE"
echo larger >&2
while true; do wait $!; done
"""


def event(run: str, size: int = 20_000) -> bytes:
    facets = {"noise": {"text": os.urandom(size // 2).hex()}}
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": run, "facets": facets}}).encode()


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(
    namespace: list[str],
    collecting: Callable[..., Any],
    stored: Callable[[Path], list[Any]],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    monkeypatch.setenv("PLACE", str(place))
    monkeypatch.setenv("DISK", DISK)
    within = (*namespace, "bash", "-c", SMALL_DISK, "bash")
    acknowledged: list[str] = []
    refused: list[str] = []
    with collecting(place / "home", within=within) as collector:

        def send(run: str, size: int = 20_000) -> requests.Response:
            return requests.post(f"{collector.url}/api/v1/lineage", data=event(run, size), timeout=20)

        for number in range(200):
            answer = send(f"run {number}")
            (acknowledged if answer.status_code == 201 else refused).append(f"run {number}")
            if answer.status_code != 201:
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "No space left on device" in answer.json()["message"]
        assert len(acknowledged) > 50
        assert len(refused) > 50
        assert send("large", 3 << 20).status_code == 503
        ready = requests.get(f"{collector.url}/readyz", timeout=20)
        assert (ready.status_code, "free" in ready.json()["message"]) == (503, True)
        # What is in the log can be read all the while, by who sees that disk.
        seen = Path(f"/proc/{collector.process.pid}/root{place}/home")
        assert [one["run"]["runId"] for one in stored(seen)] == acknowledged
        assert collector.process.stdin is not None
        collector.process.stdin.write("go\n")
        collector.process.stdin.flush()
        told = iter(collector.process.stderr.readline, "")
        assert any("larger" in line for line in told)
        for run in ("afterwards", "large"):
            assert send(run, 3 << 20).status_code == 201
            acknowledged.append(run)
        shutil.copytree(seen, tmp_path / "rescued")
    assert [one["run"]["runId"] for one in stored(tmp_path / "rescued")] == acknowledged


def test_a_limit_on_files_is_a_full_disk_as_well(
    collecting: Callable[..., Any], stored: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    limited = (sys.executable, "-c", LIMITED)
    with collecting(tmp_path, within=limited) as collector:
        answers = [
            requests.post(f"{collector.url}/api/v1/lineage", data=event(f"run {number}"), timeout=20)
            for number in range(40)
        ]
        assert {answer.status_code for answer in answers[-5:]} == {503}
        assert "File too large" in answers[-1].json()["message"]
    acknowledged = sum(answer.status_code == 201 for answer in answers)
    assert [one["run"]["runId"] for one in stored(tmp_path)] == [f"run {number}" for number in range(acknowledged)]


LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
os.execv(sys.argv[1], sys.argv[1:])
"""
