"""Health, readiness and metrics of processes that serve nothing else, on a port of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from clew.errors import ClewError

_POLL_SECONDS = 0.1
_TEXT = "text/plain; charset=utf-8"
# Raises ClewError if the process is not ready.
ReadinessCheck = Callable[[], None]


def always_ready() -> None:
    """Accept: the process is ready as soon as it listens."""


@contextmanager
def serve_monitoring(
    registry: CollectorRegistry, host: str, port: int, check_ready: ReadinessCheck = always_ready
) -> Iterator[int]:
    """Serve `/healthz`, `/readyz` and `/metrics` from a thread; yield the port, which is a free one for 0."""

    class Handler(BaseHTTPRequestHandler):
        # A client that sends nothing does not hold a thread.
        timeout = 10

        def do_GET(self) -> None:
            self._respond(*_answer(self.path.partition("?")[0], registry, check_ready))

        def do_HEAD(self) -> None:
            self.do_GET()

        def _respond(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: probes arrive every few seconds."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"Metrics cannot be served on {host}:{port}: {reason}."
        raise ClewError(message, hint="Pass another port with --metrics-port.") from error
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(_POLL_SECONDS,), name="clew-monitoring", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(path: str, registry: CollectorRegistry, check_ready: ReadinessCheck) -> tuple[int, str, bytes]:
    if path == "/metrics":
        return 200, CONTENT_TYPE_LATEST, generate_latest(registry)
    if path == "/healthz":
        return 200, _TEXT, b"ok\n"
    if path == "/readyz":
        try:
            check_ready()
        except ClewError as error:
            return 503, _TEXT, f"not ready: {error.message}\n".encode()
        return 200, _TEXT, b"ready\n"
    return 404, _TEXT, b"Not found. Use /healthz, /readyz or /metrics.\n"
