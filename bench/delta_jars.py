"""Spark's own Delta: its jars, and the settings of a session that uses them."""

from __future__ import annotations

from pathlib import Path

from bench.jars import fetched

_VERSION = "4.4.0"
_JARS = ("delta-spark_4.2_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")


def delta_settings(folder: Path) -> dict[str, str]:
    """What a session needs to read and write Delta tables by itself; jars are kept in the folder."""
    return {
        "spark.jars": ",".join(str(fetched("io.delta", name, _VERSION, folder)) for name in _JARS),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
