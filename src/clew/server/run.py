"""Run an HTTP server: listen, TLS, uvicorn, health endpoints, logging."""

from __future__ import annotations

import errno
import gc
import logging
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from clew.errors import ClewError, UsageError
from clew.server.fast_path import FastPath, FastPathProtocol
from clew.server.origin_check import OriginMiddleware, OriginPolicy


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object; the extra `fields` are added to it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def configure_logging(*, as_json: bool) -> None:
    """Configure logging to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("clew").setLevel(logging.INFO)


async def healthz(_: Request) -> Response:
    """Return 200 while the process runs."""
    return PlainTextResponse("ok\n")


_MAX_PORT = 65535
_DRAIN_SECONDS = 10
# Longer than the pauses of producers: a connection closed while they send makes them retry.
_KEEP_ALIVE_SECONDS = 60
# Larger than a burst while the disk is slow; connections beyond the backlog are dropped.
_BACKLOG = 2048


@dataclass(frozen=True)
class Tls:
    """PEM files of the certificate chain and its private key."""

    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        """Raise UsageError for files that are invalid or do not match."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = f"Cannot use TLS with {self.certificate} and {self.key}: {error.strerror or error}."
            raise UsageError(message, hint="Pass PEM files: --tls-cert with the full chain, and --tls-key.") from error


def serve(
    app: ASGIApp,
    listener: socket.socket,
    on_ready: Callable[[str], None] = print,
    tls: Tls | None = None,
    fast_path: FastPath | None = None,
    policy: OriginPolicy | None = None,
) -> None:
    """Serve until interrupted. `on_ready` receives a message with the URL.

    Small requests are handled by `fast_path` if it has a handler, else by the application. `policy` applies to both.
    """
    policy = policy or OriginPolicy.of(listener.getsockname()[0])
    on_ready(f"Serving on {listener_url(listener, 'http' if tls is None else 'https')} (Ctrl-C stops)")
    config = uvicorn.Config(
        OriginMiddleware(app, policy),
        http=FastPathProtocol.with_handlers(replace(fast_path or FastPath(), policy=policy)),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    # Objects loaded so far are permanent; collecting them again delays some responses by 40 ms.
    gc.freeze()
    uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket."""
    if not 0 <= port <= _MAX_PORT:
        raise UsageError(f"Invalid port {port}.", hint=f"Use --port with a number from 0 to {_MAX_PORT}.")
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise UsageError(f"Cannot resolve host {host!r}: {error.strerror}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        # Otherwise the port stays in use for a minute after a server was stopped.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _listen_error(host, port, error) from error
    return listener


def listener_url(listener: socket.socket, scheme: str = "http") -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _listen_error(host: str, port: int, error: OSError) -> ClewError:
    if error.errno == errno.EADDRINUSE:
        return ClewError(
            f"Port {port} on {host} is in use.", hint="Use another port with --port, or --port 0 for any free port."
        )
    if error.errno == errno.EACCES:
        return ClewError(f"Permission denied for port {port}.", hint="Use a port above 1023 with --port.")
    return ClewError(f"Cannot listen on {host}, port {port}: {error.strerror}.", hint="Check --host and --port.")
