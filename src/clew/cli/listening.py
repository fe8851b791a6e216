"""Options of what listens on a port: who is let in, over TLS or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce, wraps
from pathlib import Path
from socket import socket
from typing import Any

import click

from clew.errors import UsageError
from clew.home import Home
from clew.serving.guard import GrantOf, Guard
from clew.serving.keys import KeyFile
from clew.serving.server import LOOPBACK, Tls, listen

_file = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class Listening:
    """Where to listen, and whom to let in."""

    host: str
    port: int
    tokens: GrantOf | None
    tls: Tls | None
    is_guarded: bool

    def opened(self) -> socket:
        """The port, taken."""
        return listen(self.host, self.port)

    def guard(self, home: Home) -> Guard:
        """Who is let in by the keys of a home."""
        return guard_for(self.host, KeyFile(home.keys), self.tokens, is_asked_for=self.is_guarded)


def listening_options(default_port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options of every server, given to the command as `listening`."""
    options = (
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need keys."),
        click.option(
            "--port", type=int, default=default_port, show_default=True, help="Port to listen on; 0 picks a free one."
        ),
        click.option("--require-key", is_flag=True, help="Ask for API keys on this machine, too."),
        click.option("--jwks", metavar="PLACE", help="File or URL of the keys by which tokens (JWT) are checked."),
        click.option("--jwt-issuer", metavar="TEXT", help="Who must have issued a token."),
        click.option("--jwt-audience", metavar="TEXT", help="For whom a token must be made."),
        click.option("--tls-cert", type=_file, help="Speak TLS: a PEM file of the certificate and its chain."),
        click.option("--tls-key", type=_file, help="The PEM file of its private key."),
    )

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_listening(
            *args: Any,
            host: str,
            port: int,
            require_key: bool,
            jwks: str | None,
            jwt_issuer: str | None,
            jwt_audience: str | None,
            tls_cert: Path | None,
            tls_key: Path | None,
            **kwargs: Any,
        ) -> Any:
            tokens, tls = _tokens(jwks, jwt_issuer, jwt_audience), _tls(tls_cert, tls_key)
            listening = Listening(host, port, tokens, tls, is_guarded=require_key)
            return command(*args, listening=listening, **kwargs)

        return reduce(lambda wrapped, option: option(wrapped), reversed(options), with_listening)

    return with_options


def guard_for(host: str, keys: KeyFile, tokens: GrantOf | None, *, is_asked_for: bool) -> Guard:
    """Everyone on this machine is let in, unless keys are asked for; nobody else ever is without one."""
    is_here = host in LOOPBACK
    if is_here and not is_asked_for and tokens is None:
        return Guard()
    if tokens is None and not keys.listed():
        if is_here:
            raise UsageError("There are no keys to ask for.", hint="Add one with `clew keys add NAME`.")
        raise UsageError(
            f"{host} can be reached from other machines, and there are no keys to tell who may send or ask.",
            hint="Add one with `clew keys add NAME`, or listen on 127.0.0.1.",
        )
    return Guard(keys, tokens)


def _tokens(jwks: str | None, issuer: str | None, audience: str | None) -> GrantOf | None:
    if jwks is None and issuer is None and audience is None:
        return None
    if jwks is None or issuer is None or audience is None:
        hint = "Otherwise a token that was made for something else would do."
        raise UsageError("--jwks, --jwt-issuer and --jwt-audience belong together.", hint=hint)
    # Needs a package that others can do without.
    from clew.serving.tokens import Tokens

    return Tokens(jwks, issuer, audience)


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key belong together.", hint="Give both, or neither.")
    return Tls(certificate, key)
