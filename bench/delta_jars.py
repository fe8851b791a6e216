"""Jars and session settings of Spark's Delta library."""

from __future__ import annotations

from pathlib import Path

from bench.jars import download_jar

_VERSION = "4.4.0"
_JARS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")


def delta_settings(folder: Path) -> dict[str, str]:
    """Spark settings to read and write Delta tables; jars are cached in the folder."""
    return {
        "spark.jars": ",".join(str(download_jar("io.delta", name, _VERSION, folder)) for name in _JARS),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
