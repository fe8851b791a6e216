"""Serving an application, on this machine unless told otherwise."""

from __future__ import annotations

import errno
import gc
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from clew.errors import ClewError, UsageError
from clew.serving.quick import Quick, QuickProtocol

DEFAULT_PORT = 8777
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_HIGHEST_PORT = 65535
_DRAIN_SECONDS = 10
# Producers send now and then: who closes while they do makes them send again.
_IDLE_SECONDS = 60
# More than may come in one moment while a disk is slow: who does not fit in is not heard at all.
_BACKLOG = 2048


@dataclass(frozen=True)
class Tls:
    """The files of a certificate, with those that vouch for it, and of its private key."""

    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        """Refuse files that are none, or do not belong together."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as fault:
            message = f"TLS cannot be spoken with {self.certificate} and {self.key}: {fault.strerror or fault}."
            raise UsageError(message, hint="Give PEM files: --tls-cert with the whole chain, --tls-key.") from fault


def serve(
    app: ASGIApp,
    listener: socket.socket,
    say: Callable[[str], None] = print,
    tls: Tls | None = None,
    quick: Quick | None = None,
) -> None:
    """Serve until interrupted; `say` is told the address, which is the way to learn it when any port would do.

    Small requests go to `quick`, if it has an answer, and not to the application.
    """
    say(f"Serving on {address(listener, 'http' if tls is None else 'https')} (Ctrl-C stops)")
    config = uvicorn.Config(
        app,
        http=QuickProtocol.of(quick or Quick()),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    # What was loaded by now stays. To look through all of it for what is no longer needed, again and again, makes some
    # answers wait for 40 ms.
    gc.freeze()
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


def address(listener: socket.socket, scheme: str = "http") -> str:
    """The URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"


def _refused(host: str, port: int, fault: OSError) -> ClewError:
    if fault.errno == errno.EADDRINUSE:
        return ClewError(
            f"Port {port} on {host} is in use.", hint="Choose another with --port, or --port 0 for any free one."
        )
    if fault.errno == errno.EACCES:
        return ClewError(f"Port {port} needs rights that you do not have.", hint="Choose one above 1023 with --port.")
    return ClewError(f"Cannot listen on {host}, port {port}: {fault.strerror}.", hint="Check --host and --port.")
