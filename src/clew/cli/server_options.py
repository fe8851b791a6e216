"""Options of commands that listen on a port: address, authentication, TLS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce, wraps
from pathlib import Path
from socket import socket
from typing import Any

import click

from clew.config import SETTINGS, resolve_setting
from clew.data_dir import DataDir
from clew.errors import UsageError
from clew.server.auth import Authenticator, KeyFile, TokenVerifier
from clew.server.origin_check import LOOPBACK, OriginPolicy
from clew.server.run import Tls, listen

_FILE_TYPE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True)
class ServerOptions:
    """Address, authentication and TLS settings of a server."""

    host: str
    port: int
    tokens: TokenVerifier | None
    tls: Tls | None
    requires_key: bool
    accepts_invalid: bool = False
    allowed_hosts: tuple[str, ...] = ()

    @property
    def policy(self) -> OriginPolicy:
        """The host names that the server answers to."""
        return OriginPolicy.of(self.host, self.allowed_hosts)

    def open_socket(self) -> socket:
        """Bind the port."""
        return listen(self.host, self.port)

    def authenticator(self, home: DataDir) -> Authenticator:
        """Return the authenticator: open on loopback unless keys are required, keys or tokens elsewhere."""
        keys, is_loopback = KeyFile(home.keys), self.host in LOOPBACK
        if is_loopback and not self.requires_key and self.tokens is None:
            return Authenticator()
        if self.tokens is None and not keys.list_keys():
            if is_loopback:
                raise UsageError("No API keys exist.", hint="Add one with `clew keys add NAME`.")
            raise UsageError(
                f"{self.host} is reachable from other machines, and no API keys exist.",
                hint="Add one with `clew keys add NAME`, or listen on 127.0.0.1.",
            )
        return Authenticator(keys, self.tokens)


def server_options(default_port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a server; the command receives them as `server`."""
    options = (
        click.option(
            "--host",
            default="127.0.0.1",
            show_default=True,
            help="Address to listen on; addresses other than loopback require keys.",
        ),
        click.option(
            "--port", type=int, default=default_port, show_default=True, help="Port to listen on; 0 picks a free one."
        ),
        click.option(
            "--allowed-host",
            "allowed_hosts",
            multiple=True,
            metavar="NAME",
            help="Answer to this name in the Host header, for example behind a proxy; may be repeated. On loopback "
            "addresses, only loopback names are allowed by default.",
        ),
        click.option("--require-key", is_flag=True, help="Require API keys on localhost too."),
        click.option("--jwks", metavar="FILE|URL", help="JWKS file or URL used to verify JWTs."),
        click.option("--jwt-issuer", metavar="TEXT", help="Required JWT issuer (iss)."),
        click.option("--jwt-audience", metavar="TEXT", help="Required JWT audience (aud)."),
        click.option(
            "--invalid-events",
            type=click.Choice(SETTINGS["invalid_events"].choices),
            default=lambda: resolve_setting("invalid_events").value,
            show_default="reject",
            help="Response to an invalid event, which is stored as rejected: 422, or 201 if accepted.",
        ),
        click.option("--tls-cert", type=_FILE_TYPE, help="Serve TLS with this certificate chain (PEM)."),
        click.option("--tls-key", type=_FILE_TYPE, help="Private key of the certificate (PEM)."),
    )

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_server(  # noqa: PLR0913
            *args: Any,
            host: str,
            port: int,
            allowed_hosts: tuple[str, ...],
            require_key: bool,
            jwks: str | None,
            jwt_issuer: str | None,
            jwt_audience: str | None,
            tls_cert: Path | None,
            tls_key: Path | None,
            **kwargs: Any,
        ) -> Any:
            tokens, tls = _token_verifier(jwks, jwt_issuer, jwt_audience), _tls(tls_cert, tls_key)
            accepts_invalid = kwargs.pop("invalid_events") == "accept"
            server = ServerOptions(host, port, tokens, tls, require_key, accepts_invalid, allowed_hosts)
            return command(*args, server=server, **kwargs)

        return reduce(lambda wrapped, option: option(wrapped), reversed(options), with_server)

    return with_options


def _token_verifier(jwks: str | None, issuer: str | None, audience: str | None) -> TokenVerifier | None:
    if jwks is None and issuer is None and audience is None:
        return None
    if jwks is None or issuer is None or audience is None:
        hint = "Without issuer and audience, tokens issued for other services would be accepted."
        raise UsageError("--jwks, --jwt-issuer and --jwt-audience must be used together.", hint=hint)
    # Imported here: needs the extra `jwt`.
    from clew.server.jwt_auth import JwtAuthenticator

    return JwtAuthenticator(jwks, issuer, audience)


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key must be used together.", hint="Pass both, or neither.")
    return Tls(certificate, key)
