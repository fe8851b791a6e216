"""Tests of the comparison with Marquez, with servers that accept everything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bench.figures import Report, read_figures
from bench.generate import generate_events
from bench.measure_marquez import MarquezApi, compare, main
from bench.rounds import RunSize


@contextmanager
def serve(status_of_writes: int = 201) -> Iterator[tuple[MarquezApi, list[str]]]:
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.respond(200)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.respond(status_of_writes)

        def respond(self, status: int) -> None:
            requests.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield MarquezApi(f"http://127.0.0.1:{server.server_port}"), requests
        server.shutdown()
        thread.join()


def test_both_servers_get_the_same_requests(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    events = list(dict.fromkeys(generate_events(40, 1)))
    with serve() as (clew, clew_requests), serve() as (marquez, marquez_requests):
        compare(clew, marquez, events, Report("marquez", RunSize(), path))
    assert sorted(clew_requests) == sorted(marquez_requests)
    assert clew_requests.count("POST /api/v1/lineage") == len(events)
    assert [figure.name for figure in read_figures(path)][:2] == [
        "events per second until visible, clew / Marquez",
        "a page of 25 jobs: median latency of Marquez / of clew",
    ]


def test_a_server_that_rejects_events_is_an_error(tmp_path: Path) -> None:
    report = Report("marquez", RunSize(), tmp_path / "figures.jsonl")
    with (
        serve() as (clew, _),
        serve(status_of_writes=400) as (marquez, _),
        pytest.raises(RuntimeError, match="did not store all events"),
    ):
        compare(clew, marquez, list(dict.fromkeys(generate_events(8, 1))), report)


def test_nothing_is_measured_without_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MARQUEZ_URL", raising=False)
    monkeypatch.setattr("sys.argv", ["measure_marquez", "10"])
    main()
    assert "not measured: MARQUEZ_URL is not set" in capsys.readouterr().out
