"""Scripts under capture that send their streams: to any OpenLineage endpoint, and to the collector."""

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

from tests.support.event_receivers import Taker

from clew.capture.emit.files import FILES, LINEAGE
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges

SCRIPT = "import clew\nclew.track()\nimport pandas as pd\nout = pd.DataFrame({'a': [1, 2]}).head(1)\n"


def run(folder: Path, url: str) -> None:
    """Run the script; the worker that it leaves behind may still be sending."""
    (folder / "job.py").write_text(SCRIPT)
    environment = {"CLEW_STREAMS": str(folder / "streams"), "OPENLINEAGE_URL": url, "CLEW_DELIVERY_SECONDS": "0"}
    subprocess.run([sys.executable, "job.py"], cwd=folder, env={**os.environ, **environment}, check=True, timeout=60)


def written(folder: Path, *names: str) -> list[bytes]:
    files = [file for name in names for file in (folder / "streams").glob(f"*/{name}")]
    return sorted(line for file in files for line in file.read_bytes().splitlines())


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether something comes true within half a minute: a worker is nobody's child to wait for."""
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_what_found_no_endpoint_comes_with_the_next_session(tmp_path: Path) -> None:
    taker = Taker()
    with taker.listening() as url:
        port = int(url.rsplit(":", 1)[1])
    run(tmp_path, url)
    with taker.listening(port):
        run(tmp_path, url)
        assert wait_for(lambda: sorted(taker.bodies("/api/v1/lineage")) == written(tmp_path, LINEAGE))
    assert len({json.loads(body)["session_id"] for body in taker.bodies("/api/v1/lineage")}) == 2


@contextmanager
def collecting(home: Path, port: int = 0) -> Iterator[int]:
    command = [sys.executable, "-m", "clew", "collect", "--port", str(port), "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r":(\d+)/", process.stderr.readline())
        assert found is not None
        try:
            yield int(found[1])
        finally:
            process.terminate()
            process.wait(20)


def stored(home: Path) -> list[bytes]:
    parts = split_ranges(home / "log", 0, end_position(home / "log"), 1 << 30)
    return sorted(bytes(decode_record(text).body) for part in parts for _, text in read_lines(part))


def test_the_collector_gets_all_three_streams_though_it_was_down(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with collecting(home) as port:
        run(tmp_path, f"http://127.0.0.1:{port}")
        assert wait_for(lambda: stored(home) == written(tmp_path, *FILES))
    run(tmp_path, f"http://127.0.0.1:{port}")
    with collecting(home, port):
        run(tmp_path, f"http://127.0.0.1:{port}")
        assert wait_for(lambda: stored(home) == written(tmp_path, *FILES))
