"""A SPARK_HOME of symlinks without `pyspark.zip`.

Spark puts this zip first on the path of every Python process that it starts, and modules of a zip are compiled by each
process: half a second of CPU, for five processes before the first event is read and one for every stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from clew.pipeline.java import temporary_folder

_VARIABLE: Final = "SPARK_HOME"
# Folders that the launcher needs; the zip is in `python`.
_FOLDERS: Final = ("bin", "conf", "jars")


@contextmanager
def spark_home_without_zip() -> Iterator[None]:
    """Set SPARK_HOME to a folder without the zip while Spark is started, unless it is set already."""
    folder = None if _VARIABLE in os.environ else _symlinked_spark_home()
    if folder is None:
        yield
        return
    os.environ[_VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


# The JVM opens jars lazily, so the folder must exist as long as the process.
@cache
def _symlinked_spark_home() -> Path | None:
    """Create the folder of symlinks; None if symlinks are not possible."""
    installed, folder = Path(pyspark.__file__).parent, temporary_folder("spark")
    try:
        for name in _FOLDERS:
            if (installed / name).is_dir():
                (folder / name).symlink_to(installed / name, target_is_directory=True)
    except OSError:
        return None
    return folder
