"""HTTP endpoints that receive events, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class EventReceiver:
    """An endpoint that responds with the status of `respond` and records the accepted events."""

    def __init__(self, answer: Callable[[str], int] = lambda _: 201) -> None:
        self.respond = answer
        self.received: list[tuple[str, bytes]] = []
        self.authorizations: set[str | None] = set()
        # Of all requests, in order.
        self.headers: list[dict[str, str]] = []
        self.received_condition = threading.Condition()

    def bodies(self, path: str) -> list[bytes]:
        return [body for request_path, body in self.received if request_path == path]

    @contextmanager
    def listen(self, port: int = 0) -> Iterator[str]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.respond(self.path)
                with receiver.received_condition:
                    receiver.authorizations.add(self.headers["Authorization"])
                    receiver.headers.append(dict(self.headers))
                    if status < 300:
                        receiver.received.append((self.path, body))
                    receiver.received_condition.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
