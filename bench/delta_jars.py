"""Spark's own Delta: jars from Maven Central, fetched once, and the settings of a session that uses them."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

_MAVEN = "https://repo1.maven.org/maven2/io/delta"
_VERSION = "4.4.0"
_JARS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
_NETWORK_SECONDS = 10


class NoJarError(Exception):
    """A jar that cannot be had."""


def delta_settings(folder: Path) -> dict[str, str]:
    """What a session needs to read and write Delta tables by itself; jars are kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.jars": ",".join(str(_fetched(name, folder)) for name in _JARS),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def _fetched(name: str, folder: Path) -> Path:
    path = folder / f"{name}-{_VERSION}.jar"
    if not path.exists():
        address = f"{_MAVEN}/{name}/{_VERSION}/{path.name}"
        try:
            with urllib.request.urlopen(address, timeout=_NETWORK_SECONDS) as answer:  # noqa: S310  # always https
                path.with_suffix(".part").write_bytes(answer.read())
        except (urllib.error.URLError, TimeoutError) as fault:
            message = f"{path.name} cannot be had: {fault}"
            raise NoJarError(message) from fault
        path.with_suffix(".part").rename(path)
    return path
