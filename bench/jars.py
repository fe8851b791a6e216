"""Downloads of jars from Maven Central, cached in a folder."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

_MAVEN = "https://repo1.maven.org/maven2"
_NETWORK_SECONDS = 20


class NoJarError(Exception):
    """A jar cannot be downloaded."""


def download_jar(group: str, name: str, version: str, folder: Path) -> Path:
    """Download a jar into a folder, unless it is there, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        url = f"{_MAVEN}/{group.replace('.', '/')}/{name}/{version}/{path.name}"
        try:
            with urllib.request.urlopen(url, timeout=_NETWORK_SECONDS) as response:  # noqa: S310  # always https
                path.with_suffix(".part").write_bytes(response.read())
        except (urllib.error.URLError, TimeoutError) as error:
            message = f"{path.name} cannot be downloaded: {error}"
            raise NoJarError(message) from error
        path.with_suffix(".part").rename(path)
    return path
