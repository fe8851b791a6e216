"""`clew collect` from outside: real clients, kills under load, and a pipeline beside it."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport
from openlineage.client.transport.http import HttpCompression, HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid

from clew.collector.segments import decode_line, end_position, ranges, read_lines

KILLS = 20
CLIENTS = 8


@dataclass(frozen=True)
class Collector:
    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def collecting(home: Path) -> Iterator[Collector]:
    command = [sys.executable, "-m", "clew", "collect", "--port", "0", "--home", str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r":(\d+)/", process.stderr.readline())
        assert found is not None
        try:
            yield Collector(process, int(found[1]))
        finally:
            process.terminate()
            process.wait(20)


def stored(home: Path) -> list[Any]:
    parts = ranges(home / "log", 0, end_position(home / "log"), 1 << 30)
    return [json.loads(decode_line(text).body) for part in parts for _, text in read_lines(part)]


def run_event(state: RunState) -> RunEvent:
    return RunEvent(
        eventType=state,
        eventTime=datetime.now(UTC).isoformat(),
        run=Run(str(generate_new_uuid())),
        job=Job("shop", "load"),
        producer="https://example.org/producer",
    )


def test_real_clients_are_heard(tmp_path: Path) -> None:
    events = [run_event(state) for state in (RunState.START, RunState.RUNNING, RunState.COMPLETE)]
    with collecting(tmp_path) as collector:
        plain = HttpConfig(url=collector.url)
        zipped = HttpConfig(url=collector.url, compression=HttpCompression.GZIP)
        for event, config in zip(events, (plain, zipped), strict=False):
            OpenLineageClient(transport=HttpTransport(config)).emit(event)
        waiting = AsyncHttpTransport(AsyncHttpConfig(url=collector.url))
        waiting.emit(events[2])
        assert waiting.close(timeout=20)
    assert {event["run"]["runId"] for event in stored(tmp_path)} == {event.run.runId for event in events}


def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    chance = random.Random(7)
    for turn in range(KILLS):
        with collecting(tmp_path) as collector:
            heard = threading.Event()
            clients = [
                threading.Thread(target=send_until_it_dies, args=(collector.port, f"{turn}-{one}", acknowledged, heard))
                for one in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            assert heard.wait(20)
            threading.Event().wait(chance.uniform(0, 0.2))
            os.kill(collector.process.pid, signal.SIGKILL)
            for client in clients:
                client.join()
    assert len(acknowledged) > KILLS * CLIENTS
    assert acknowledged <= {event["run"]["runId"] for event in stored(tmp_path)}


def send_until_it_dies(port: int, name: str, acknowledged: set[str], heard: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    number = 0
    try:
        while True:
            number += 1
            run = f"{name}-{number}"
            body = json.dumps({"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": run}, "x": "y" * 5000})
            connection.request("POST", "/api/v1/lineage", body)
            answer = connection.getresponse()
            answer.read()
            if answer.status == http.HTTPStatus.CREATED:
                acknowledged.add(run)
                heard.set()
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()


def test_what_was_begun_is_ended_when_it_is_told_to_stop(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    heard = threading.Event()
    with collecting(tmp_path) as collector:
        client = threading.Thread(target=send_until_it_dies, args=(collector.port, "a", acknowledged, heard))
        client.start()
        assert heard.wait(20)
        collector.process.terminate()
        assert collector.process.wait(20) in {0, -signal.SIGTERM}
        client.join()
    assert acknowledged <= {event["run"]["runId"] for event in stored(tmp_path)}


def test_a_pipeline_takes_in_what_a_collector_holds(tmp_path: Path, clew: Callable[..., Any]) -> None:
    event = run_event(RunState.COMPLETE)
    with collecting(tmp_path) as collector:
        OpenLineageClient(transport=HttpTransport(HttpConfig(url=collector.url))).emit(event)
        ended = clew("pipeline", "run", "--json", "--home", tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["events"] == 1
        assert "Another process writes to the log" in ended.stderr
        refused = clew("pipeline", "run", "--from", __file__, "--home", tmp_path)
        assert (refused.returncode, "Another process is writing to the log" in refused.stderr) == (1, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org"])
def test_it_is_for_this_machine_only(host: str, tmp_path: Path, clew: Callable[..., Any]) -> None:
    ended = clew("collect", "--host", host, "--home", tmp_path)
    assert ended.returncode == 2
    assert "can be reached from other machines" in ended.stderr
