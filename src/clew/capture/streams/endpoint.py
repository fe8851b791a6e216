"""OpenLineage endpoint for delivery, configured as for the OpenLineage clients."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from clew import __version__
from clew.capture.streams.files import DATAFRAME, RUNTIME

_DEFAULT_PATH = "api/v1/lineage"
_DEFAULT_TIMEOUT = 5.0
# Additional endpoints of a clew collector; other servers answer 404.
_CLEW_PATHS = {RUNTIME: "api/v1/events/runtime", DATAFRAME: "api/v1/events/dataframe"}


class DeliveryEndpoint(NamedTuple):
    """URL, path and credentials of an endpoint."""

    url: str
    path: str = _DEFAULT_PATH
    api_key: str | None = None
    timeout: float = _DEFAULT_TIMEOUT

    def connection(self) -> http.client.HTTPConnection:
        """Create a connection, not opened yet."""
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(parts.hostname or "localhost", parts.port, timeout=self.timeout)

    def target(self, stream: str) -> str:
        """Return the request path for the events of a stream."""
        base_path = urlsplit(self.url).path.strip("/")
        path = _CLEW_PATHS.get(stream, self.path)
        return "/" + "/".join(filter(None, (base_path, path.strip("/"))))

    def headers(self) -> dict[str, str]:
        """Return the request headers."""
        headers = {"Content-Type": "application/json", "User-Agent": f"clew/{__version__}"}
        return {**headers, "Authorization": f"Bearer {self.api_key}"} if self.api_key else headers


def find_endpoint() -> DeliveryEndpoint | None:
    """Return the `http` transport of openlineage.yml, else of OPENLINEAGE_URL; None if delivery is not configured."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    transport = _transport_config()
    if transport.get("type"):
        return _from_transport(transport)
    url = os.environ.get("OPENLINEAGE_URL", "")
    if not _is_http(url):
        return None
    path = os.environ.get("OPENLINEAGE_ENDPOINT") or _DEFAULT_PATH
    return DeliveryEndpoint(url, path, os.environ.get("OPENLINEAGE_API_KEY") or None)


def _from_transport(transport: dict[str, str]) -> DeliveryEndpoint | None:
    url = transport.get("url", "")
    if transport["type"] not in ("http", "async_http") or not _is_http(url):
        return None
    names = ("apiKey", "apikey", "api_key")
    key = next((value for name in names if (value := transport.get(f"auth.{name}"))), None)
    try:
        timeout = float(transport.get("timeout", _DEFAULT_TIMEOUT))
    except ValueError:
        timeout = _DEFAULT_TIMEOUT
    return DeliveryEndpoint(url, transport.get("endpoint") or _DEFAULT_PATH, key, timeout)


def _is_http(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")


def _transport_config() -> dict[str, str]:
    paths = (os.environ.get("OPENLINEAGE_CONFIG"), "openlineage.yml", Path.home() / ".openlineage" / "openlineage.yml")
    for path in paths:
        if not path:
            continue
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        prefix = "transport."
        values = _parse_yaml_scalars(text)
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
    return {}


def _parse_yaml_scalars(text: str) -> dict[str, str]:
    """Parse nested mappings of scalars to dotted names: the YAML subset an HTTP transport needs."""
    scalars: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    for line in text.splitlines():
        name, colon, value = line.strip().partition(":")
        if not colon or name.startswith(("#", "-")):
            continue
        indent = len(line) - len(line.lstrip())
        while parents and parents[-1][0] >= indent:
            parents.pop()
        parents.append((indent, name.strip("'\" ")))
        plain = _parse_yaml_value(value.strip())
        if plain:
            scalars[".".join(part for _, part in parents)] = plain
    return scalars


def _parse_yaml_value(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1:].partition(value[0])[0]
    return "" if value.startswith("#") else value.partition(" #")[0].strip()
