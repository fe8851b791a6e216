"""Which OpenLineage endpoint events are sent to: found as the OpenLineage clients find it."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from clew import __version__
from clew.capture.streams.files import DATAFRAME, RUNTIME

_PATH = "api/v1/lineage"
_SECONDS = 5.0
# Beside its own endpoint for OpenLineage, a collector of clew has these; others answer that they do not know them.
_OWN_PATHS = {RUNTIME: "api/v1/events/runtime", DATAFRAME: "api/v1/events/dataframe"}


class Endpoint(NamedTuple):
    """Where to send, and what to say to be let in."""

    url: str
    path: str = _PATH
    api_key: str | None = None
    seconds: float = _SECONDS

    def connection(self) -> http.client.HTTPConnection:
        """A connection that is not open yet."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "localhost", parts.port, timeout=self.seconds)

    def target(self, stream: str) -> str:
        """The path that takes the events of a stream."""
        below = urlsplit(self.url).path.strip("/")
        path = _OWN_PATHS.get(stream, self.path)
        return "/" + "/".join(filter(None, (below, path.strip("/"))))

    def headers(self) -> dict[str, str]:
        """What goes with every event."""
        given = {"Content-Type": "application/json", "User-Agent": f"clew/{__version__}"}
        return {**given, "Authorization": f"Bearer {self.api_key}"} if self.api_key else given


def find_endpoint() -> Endpoint | None:
    """The `http` transport of openlineage.yml, else OPENLINEAGE_URL; None if nothing is to be sent."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    transport = _configured()
    if transport.get("type"):
        return _of_transport(transport)
    url = os.environ.get("OPENLINEAGE_URL", "")
    if not _is_http(url):
        return None
    path = os.environ.get("OPENLINEAGE_ENDPOINT") or _PATH
    return Endpoint(url, path, os.environ.get("OPENLINEAGE_API_KEY") or None)


def _of_transport(transport: dict[str, str]) -> Endpoint | None:
    url = transport.get("url", "")
    if transport["type"] not in ("http", "async_http") or not _is_http(url):
        return None
    names = ("apiKey", "apikey", "api_key")
    key = next((found for name in names if (found := transport.get(f"auth.{name}"))), None)
    try:
        seconds = float(transport.get("timeout", _SECONDS))
    except ValueError:
        seconds = _SECONDS
    return Endpoint(url, transport.get("endpoint") or _PATH, key, seconds)


def _is_http(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


def _configured() -> dict[str, str]:
    places = (os.environ.get("OPENLINEAGE_CONFIG"), "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    for place in places:
        if not place:
            continue
        try:
            text = Path(place).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        prefix = "transport."
        values = _scalars(text)
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    return {}


def _scalars(text: str) -> dict[str, str]:
    """The scalars of nested mappings by their dotted names: all of YAML that a transport over HTTP is written in."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":")
        if not colon or name.startswith(("#", "-")):
            continue
        indent = len(line) - len(line.lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        above.append((indent, name.strip("'\" ")))
        plain = _unquoted(value.strip())
        if plain:
            found[".".join(part for _, part in above)] = plain
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].partition(value[0])[0]
    return "" if value.startswith("#") else value.partition(" #")[0].strip()
