"""Tests of delivery of captured events to an OpenLineage endpoint and to the collector."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.event_receivers import EventReceiver

from clew.capture.emit.files import FILES, LINEAGE
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges

SCRIPT = "import clew\nclew.track()\nimport pandas as pd\nout = pd.DataFrame({'a': [1, 2]}).head(1)\n"


def run_script(folder: Path, url: str) -> None:
    """Run the script; its worker process may still be sending afterwards."""
    (folder / "job.py").write_text(SCRIPT)
    environment = {"CLEW_STREAMS": str(folder / "streams"), "OPENLINEAGE_URL": url, "CLEW_DELIVERY_SECONDS": "0"}
    subprocess.run([sys.executable, "job.py"], cwd=folder, env={**os.environ, **environment}, check=True, timeout=60)


def read_streams(folder: Path, *names: str) -> list[bytes]:
    files = [file for name in names for file in (folder / "streams").glob(f"*/{name}")]
    return sorted(line for file in files for line in file.read_bytes().splitlines())


def wait_for(condition: Callable[[], bool]) -> bool:
    """Poll a condition for up to 30 seconds: the worker is not a child process, so it cannot be waited for."""
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_undelivered_events_are_sent_by_the_next_session(tmp_path: Path) -> None:
    receiver = EventReceiver()
    with receiver.listen() as url:
        port = int(url.rsplit(":", 1)[1])
    run_script(tmp_path, url)
    with receiver.listen(port):
        run_script(tmp_path, url)
        assert wait_for(lambda: sorted(receiver.bodies("/api/v1/lineage")) == read_streams(tmp_path, LINEAGE))
    assert len({json.loads(body)["session_id"] for body in receiver.bodies("/api/v1/lineage")}) == 2


@contextmanager
def run_collector(home: Path, port: int = 0) -> Iterator[int]:
    command = [sys.executable, "-m", "clew", "collect", "--port", str(port), "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        match = re.search(r":(\d+)/", process.stderr.readline())
        assert match is not None
        try:
            yield int(match[1])
        finally:
            process.terminate()
            process.wait(20)


def read_log(home: Path) -> list[bytes]:
    ranges = split_ranges(home / "log", 0, end_position(home / "log"), 1 << 30)
    return sorted(bytes(decode_record(line).body) for log_range in ranges for _, line in read_lines(log_range))


def test_collector_receives_all_streams_after_an_outage(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with run_collector(home) as port:
        run_script(tmp_path, f"http://127.0.0.1:{port}")
        assert wait_for(lambda: read_log(home) == read_streams(tmp_path, *FILES))
    run_script(tmp_path, f"http://127.0.0.1:{port}")
    with run_collector(home, port):
        run_script(tmp_path, f"http://127.0.0.1:{port}")
        assert wait_for(lambda: read_log(home) == read_streams(tmp_path, *FILES))
