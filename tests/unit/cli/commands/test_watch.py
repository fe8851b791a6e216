"""Tests of `clew watch`, and of webhooks of servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.event_receivers import EventReceiver

from clew.cli.main import cli


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLEW_HOME", "CLEW_LAKE", "CLEW_INDEX", "CLEW_WEBHOOK", "CLEW_WEBHOOK_SECRET"):
        monkeypatch.delenv(name, raising=False)


def run(home: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["watch", "--once", "--home", str(home), *arguments])
    return (getattr(result.exception, "exit_code", None) or result.exit_code), result.stdout


def test_prints_a_line_for_each_change(scenario: Any, tmp_path: Path) -> None:
    error = {"errorMessage": {"message": "first line\nsecond line", "programmingLanguage": "SQL"}}
    scenario.run("load\njob", kind="FAIL", run_facets=error)
    scenario.index_events()
    code, output = run(tmp_path, "--since", "beginning")
    assert (code, output.count("\n")) == (0, 1)
    assert output.endswith(" Run failed: jobs:load job: first line\n")
    assert run(tmp_path, "--since", "beginning") == (0, "")


def test_json_lines(scenario: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        scenario.run(name, kind="FAIL")
    scenario.index_events()
    _, output = run(tmp_path, "--since", "beginning", "--json", "--on", "failed-runs", "--namespace", "jobs")
    assert [json.loads(line)["job"]["name"] for line in output.splitlines()] == ["a", "b"]


def test_exits_with_1_if_a_webhook_is_down(scenario: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.watch.webhook._MIN_BACKOFF_SECONDS", 0.0)
    scenario.run("a", kind="FAIL")
    scenario.index_events()
    with EventReceiver(lambda _: 500).listen() as url:
        assert run(tmp_path, "--since", "beginning", "--webhook", url)[0] == 1
    receiver = EventReceiver()
    with receiver.listen(int(url.rpartition(":")[2])) as url:
        assert run(tmp_path, "--webhook", url)[0] == 0
    assert len(receiver.received) == 1


@pytest.mark.parametrize(
    "arguments",
    [("--on", "x"), ("--since", "x"), ("--name", "../x"), ("--webhook", "x"), ("--webhook-secret-file", "/missing")],
)
def test_usage_errors(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert run(tmp_path, *arguments)[0] == 2


@contextmanager
def start(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command until the end of the block; yield the process and its first message."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    command = [sys.executable, "-m", "clew", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr.readline()
        finally:
            process.terminate()
            process.communicate(timeout=30)


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_watches_until_it_is_stopped_and_serves_metrics(scenario: Any, tmp_path: Path) -> None:
    # The watcher has a position, so that all later changes are new.
    assert run(tmp_path) == (0, "")
    with start("watch", "--home", str(tmp_path), "--metrics-port", "0") as (process, message):
        url = message.split()[-1].removesuffix("/metrics")
        assert process.stderr is not None
        assert process.stdout is not None
        assert "Watching for changes" in process.stderr.readline()
        scenario.run("a", kind="FAIL")
        scenario.index_events()
        assert process.stdout.readline().endswith("Run failed: jobs:a\n")
        assert urllib.request.urlopen(f"{url}/readyz", timeout=10).read() == b"ready\n"
        delivered = b'clew_notifications_total{kind="failed-run"} 1.0'
        wait_until(lambda: delivered in urllib.request.urlopen(f"{url}/metrics", timeout=10).read())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.slow
def test_a_server_posts_to_webhooks(scenario: Any, tmp_path: Path) -> None:
    receiver = EventReceiver()
    assert run(tmp_path, "--name", "server") == (0, "")
    with receiver.listen() as url:
        options = ("--webhook", f"{url}/hook", "--webhook-on", "failed-runs", "--webhook-namespace", "jobs")
        with start("serve", "--port", "0", "--home", str(tmp_path), *options) as (_, message):
            assert "Serving" in message
            scenario.run("a", kind="FAIL")
            scenario.index_events()
            wait_until(lambda: receiver.received)
    assert [path for path, _ in receiver.received] == ["/hook"]
