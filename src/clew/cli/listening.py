"""Options of what listens on a port: who is let in, over TLS or not."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from clew.errors import UsageError
from clew.serving.guard import GrantOf, Guard
from clew.serving.keys import KeyFile
from clew.serving.server import LOOPBACK, Tls

_file = click.Path(path_type=Path, dir_okay=False)


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--tls-cert` and `--tls-key`, given to the command as `tls`."""

    @wraps(command)
    def with_tls(*args: Any, tls_cert: Path | None, tls_key: Path | None, **kwargs: Any) -> Any:
        return command(*args, tls=_tls(tls_cert, tls_key), **kwargs)

    key = click.option("--tls-key", type=_file, help="The PEM file of its private key.")
    text = "Speak TLS: a PEM file of the certificate and its chain."
    return click.option("--tls-cert", type=_file, help=text)(key(with_tls))


def token_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--jwks`, `--jwt-issuer` and `--jwt-audience`, given to the command as `tokens`."""

    @wraps(command)
    def with_tokens(
        *args: Any, jwks: str | None, jwt_issuer: str | None, jwt_audience: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, tokens=_tokens(jwks, jwt_issuer, jwt_audience), **kwargs)

    issuer = click.option("--jwt-issuer", metavar="TEXT", help="Who must have issued a token.")
    audience = click.option("--jwt-audience", metavar="TEXT", help="For whom a token must be made.")
    text = "File or URL of the keys by which tokens (JWT) are checked."
    return click.option("--jwks", metavar="PLACE", help=text)(issuer(audience(with_tokens)))


def guard_for(host: str, keys: KeyFile, tokens: GrantOf | None, *, is_asked_for: bool) -> Guard:
    """Everyone on this machine is let in, unless keys are asked for; nobody else ever is without one."""
    is_here = host in LOOPBACK
    if is_here and not is_asked_for and tokens is None:
        return Guard()
    if tokens is None and not keys.listed():
        if is_here:
            raise UsageError("There are no keys to ask for.", hint="Add one with `clew keys add NAME`.")
        raise UsageError(
            f"{host} can be reached from other machines, and there are no keys to tell who may send.",
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
