"""Tests of health, readiness and metrics on a separate port."""

from __future__ import annotations

import socket
import urllib.request
from http.client import HTTPConnection

import pytest
from prometheus_client import CollectorRegistry, Gauge

from clew.errors import ClewError
from clew.server.monitoring import serve_monitoring


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def test_endpoints() -> None:
    registry = CollectorRegistry()
    Gauge("clew_answer", "An answer.", registry=registry).set(42)
    error: ClewError | None = ClewError("It is starting.", hint="Wait.")

    def check_ready() -> None:
        if error is not None:
            raise error

    with serve_monitoring(registry, "127.0.0.1", 0, check_ready) as port:
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/readyz") == (503, "not ready: It is starting.\n")
        error = None
        assert get(port, "/readyz") == (200, "ready\n")
        assert get(port, "/readyz", "HEAD") == (200, "")
        assert "clew_answer 42.0" in get(port, "/metrics?name=x")[1]
        assert get(port, "/")[0] == 404
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10)


def test_a_port_in_use() -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        with (
            pytest.raises(ClewError, match=r"Metrics cannot be served on .*\nPass another port with --metrics-port"),
            serve_monitoring(CollectorRegistry(), "127.0.0.1", used.getsockname()[1]),
        ):
            pass
