"""Tests of a collector on a full disk: it reports, recovers and loses no acknowledged event."""

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
# Mounts a small disk, runs the collector on it, and enlarges the disk when a line arrives on stdin.
SMALL_DISK = r"""
mount -t tmpfs -o size=$DISK tmpfs "$MOUNT"
"$@" < /dev/null &
trap 'kill $!; wait $!; exit 0' TERM
read -r _
mount -o remount,size=90m "$MOUNT"
echo larger >&2
while true; do wait $!; done
"""


def event(run: str, size: int = 20_000) -> bytes:
    facets = {"noise": {"text": os.urandom(size // 2).hex()}}
    return json.dumps(
        {
            "eventTime": "2026-01-01T10:00:00Z",
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": "n", "name": "j"},
        }
    ).encode()


def test_full_disk_is_reported_and_no_acknowledged_event_is_lost(
    mount_namespace: list[str],
    start_collector: Callable[..., Any],
    read_log: Callable[[Path], list[Any]],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    mount = tmp_path / "disk"
    mount.mkdir()
    monkeypatch.setenv("MOUNT", str(mount))
    monkeypatch.setenv("DISK", DISK)
    prefix = (*mount_namespace, "bash", "-c", SMALL_DISK, "bash")
    acknowledged: list[str] = []
    rejected: list[str] = []
    with start_collector(mount / "home", prefix=prefix) as collector:

        def send(run: str, size: int = 20_000) -> requests.Response:
            return requests.post(f"{collector.url}/api/v1/lineage", data=event(run, size), timeout=20)

        for number in range(200):
            response = send(f"run {number}")
            (acknowledged if response.status_code == 201 else rejected).append(f"run {number}")
            if response.status_code != 201:
                assert (response.status_code, response.headers["retry-after"]) == (503, "1")
                assert "No space left on device" in response.json()["message"]
        assert len(acknowledged) > 50
        assert len(rejected) > 50
        assert send("large", 3 << 20).status_code == 503
        readiness = requests.get(f"{collector.url}/readyz", timeout=20)
        assert (readiness.status_code, "free" in readiness.json()["message"]) == (503, True)
        # The log can be read meanwhile from within the mount namespace.
        visible_home = Path(f"/proc/{collector.process.pid}/root{mount}/home")
        assert [stored["run"]["runId"] for stored in read_log(visible_home)] == acknowledged
        assert collector.process.stdin is not None
        collector.process.stdin.write("go\n")
        collector.process.stdin.flush()
        lines = iter(collector.process.stderr.readline, "")
        assert any("larger" in line for line in lines)
        for run in ("afterwards", "large"):
            assert send(run, 3 << 20).status_code == 201
            acknowledged.append(run)
        shutil.copytree(visible_home, tmp_path / "rescued")
    assert [stored["run"]["runId"] for stored in read_log(tmp_path / "rescued")] == acknowledged


def test_file_size_limit_is_reported_like_a_full_disk(
    start_collector: Callable[..., Any], read_log: Callable[[Path], list[Any]], tmp_path: Path
) -> None:
    prefix = (sys.executable, "-c", LIMIT_FILE_SIZE)
    with start_collector(tmp_path, prefix=prefix) as collector:
        responses = [
            requests.post(f"{collector.url}/api/v1/lineage", data=event(f"run {number}"), timeout=20)
            for number in range(40)
        ]
        assert {response.status_code for response in responses[-5:]} == {503}
        assert "File too large" in responses[-1].json()["message"]
    acknowledged = sum(response.status_code == 201 for response in responses)
    assert [stored["run"]["runId"] for stored in read_log(tmp_path)] == [
        f"run {number}" for number in range(acknowledged)
    ]


LIMIT_FILE_SIZE = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
os.execv(sys.argv[1], sys.argv[1:])
"""
