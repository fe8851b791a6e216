"""Jars from Maven Central, each fetched once."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

_MAVEN = "https://repo1.maven.org/maven2"
_NETWORK_SECONDS = 20


class NoJarError(Exception):
    """A jar that cannot be had."""


def fetched(group: str, name: str, version: str, folder: Path) -> Path:
    """The file of a jar, kept in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.jar"
    if not path.exists():
        address = f"{_MAVEN}/{group.replace('.', '/')}/{name}/{version}/{path.name}"
        try:
            with urllib.request.urlopen(address, timeout=_NETWORK_SECONDS) as answer:  # noqa: S310  # always https
                path.with_suffix(".part").write_bytes(answer.read())
        except (urllib.error.URLError, TimeoutError) as fault:
            message = f"{path.name} cannot be had: {fault}"
            raise NoJarError(message) from fault
        path.with_suffix(".part").rename(path)
    return path
