"""Protection against web pages of other sites: checks of the headers Host, Origin and Content-Type.

A page can make a browser send requests to a server on the user's machine, by its address or by a host name of the page
that resolves to it (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
ANY_HOST: Final = "*"
_READ_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_SAME_ORIGIN: Final = "same-origin"
# Values of Sec-Fetch-Site of a request by the page itself, by the user, or by a client that is not a browser.
_TRUSTED_SITES: Final = frozenset((_SAME_ORIGIN, "none", None))
# Headers that are checked; with several values, proxies and servers may choose different ones.
_SINGLE_HEADERS: Final = ("host", "origin", "content-type", "sec-fetch-site")
# Types that a page may send to other sites without their permission (CORS-safelisted).
_FORM_TYPES: Final = frozenset(("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"))


class HeaderRejection(NamedTuple):
    """Status and message of a rejected request."""

    status: int
    message: str


@dataclass(frozen=True)
class OriginPolicy:
    """The host names that the server answers to; None: all."""

    allowed_hosts: frozenset[str] | None = None

    @classmethod
    def of(cls, bind_host: str, extra_hosts: Iterable[str] = ()) -> OriginPolicy:
        """Create the policy of a bind address.

        On loopback, only loopback names and `extra_hosts` are allowed. On other addresses, requests need credentials
        and any name is allowed, unless `extra_hosts` lists them. `*` allows all.
        """
        extra = {_normalize(host) for host in extra_hosts}
        if ANY_HOST in extra or not (extra or bind_host in LOOPBACK):
            return cls()
        return cls(frozenset({*LOOPBACK, _normalize(bind_host), *extra}))

    def find_rejection(
        self, method: str, headers: Mapping[str, str], http_version: str = "1.1"
    ) -> HeaderRejection | None:
        """Return the reason to reject a request, if any. `headers` are by lower-case name, each once."""
        host = headers.get("host", "")
        if not host and http_version != "1.0":
            return HeaderRejection(400, "The header Host is missing.")
        if self.allowed_hosts is not None and host and _normalize(host) not in self.allowed_hosts:
            message = f"This server does not answer to the host {host!r}. Allow the name with --allowed-host."
            return HeaderRejection(421, message)
        return None if method in _READ_METHODS else _find_write_rejection(host, headers)


def _find_write_rejection(host: str, headers: Mapping[str, str]) -> HeaderRejection | None:
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    is_same_origin = origin is None or _origin_host(origin) == host.lower()
    # Behind a proxy that changes Host, only the browser knows the origin of the page.
    if site not in _TRUSTED_SITES or not (is_same_origin or site == _SAME_ORIGIN):
        return HeaderRejection(403, f"Writes from pages of other sites are not accepted (Origin: {origin}).")
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_browser = site is not None or origin is not None
    # A page can send a body without a type.
    if content_type in _FORM_TYPES or (is_browser and not content_type and _has_body(headers)):
        message = f"The content type {content_type!r} is not accepted. Send `Content-Type: application/json`."
        return HeaderRejection(415, message)
    return None


def _origin_host(origin: str) -> str | None:
    """Return host and port of an origin; None if it is malformed, such as `http://[`."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


@lru_cache(1024)
def _normalize(host: str) -> str:
    """Return a host in lower case, without port and brackets."""
    name, _, port = host.strip().lower().rpartition(":")
    host = name if name and port.isdecimal() and (name.endswith("]") or ":" not in name) else host.strip().lower()
    return host.removeprefix("[").removesuffix("]").removesuffix(".")


class OriginMiddleware:
    """Rejects requests that the policy does not allow."""

    def __init__(self, app: ASGIApp, policy: OriginPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        app = self._app
        if scope["type"] == "http":
            headers = Request(scope).headers
            repeated = [name for name in _SINGLE_HEADERS if len(headers.getlist(name)) > 1]
            rejection = (
                HeaderRejection(400, f"The header {repeated[0]} is repeated.")
                if repeated
                else self._policy.find_rejection(scope["method"], headers, scope["http_version"])
            )
            if rejection is not None:
                body = msgspec.json.encode({"code": rejection.status, "message": rejection.message})
                app = Response(body, rejection.status, media_type="application/json")
        await app(scope, receive, send)
