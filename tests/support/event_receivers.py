"""Endpoints that take events over HTTP, for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Taker:
    """An endpoint that answers as it is told, and remembers what it took."""

    def __init__(self, answer: Callable[[str], int] = lambda _: 201) -> None:
        self.answer = answer
        self.taken: list[tuple[str, bytes]] = []
        self.keys: set[str | None] = set()
        self.has_taken = threading.Condition()

    def bodies(self, path: str) -> list[bytes]:
        return [body for where, body in self.taken if where == path]

    @contextmanager
    def listening(self, port: int = 0) -> Iterator[str]:
        taker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = taker.answer(self.path)
                with taker.has_taken:
                    taker.keys.add(self.headers["Authorization"])
                    if status < 300:
                        taker.taken.append((self.path, body))
                    taker.has_taken.notify_all()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

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
