"""Serving the application, on this machine unless told otherwise."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from clew.errors import ClewError, UsageError

DEFAULT_PORT = 8777
_HIGHEST_PORT = 65535
_DRAIN_SECONDS = 10


def serve(app: ASGIApp, host: str = "127.0.0.1", port: int = DEFAULT_PORT, say: Callable[[str], None] = print) -> None:
    """Serve until interrupted; `say` is told the address, which is the way to learn it when `port` is 0."""
    with listen(host, port) as listener:
        say(f"Serving on {address(listener)} (Ctrl-C stops)")
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_DRAIN_SECONDS)
        uvicorn.Server(config).run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A socket that has the port for itself."""
    if not 0 <= port <= _HIGHEST_PORT:
        raise UsageError(f"{port} is no port.", hint=f"Give --port a number from 0 to {_HIGHEST_PORT}.")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as fault:
        raise UsageError(f"{host!r} is no host of this machine: {fault.strerror}.") from fault
    listener = socket.socket(family, kind, protocol)
    try:
        # Without this a server that was just stopped would hold its port for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()
    except OSError as fault:
        listener.close()
        raise _refused(host, port, fault) from fault
    return listener


def address(listener: socket.socket) -> str:
    """The URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _refused(host: str, port: int, fault: OSError) -> ClewError:
    if fault.errno == errno.EADDRINUSE:
        return ClewError(
            f"Port {port} on {host} is in use.", hint="Choose another with --port, or --port 0 for any free one."
        )
    if fault.errno == errno.EACCES:
        return ClewError(f"Port {port} needs rights that you do not have.", hint="Choose one above 1023 with --port.")
    return ClewError(f"Cannot listen on {host}, port {port}: {fault.strerror}.", hint="Check --host and --port.")
