"""Where Spark's launcher finds Spark: the installed package, without the zip of its Python part.

Spark puts that zip before all else on the path of every Python process that it starts, and what is in a zip is compiled
anew by each: half a second of CPU, for five processes before the first event is read and one for every stream.
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
# What the launcher looks for; the zip is in `python`.
_PARTS: Final = ("bin", "conf", "jars")


@contextmanager
def without_zip() -> Iterator[None]:
    """While Spark is started: let it find itself in a folder that has no zip, unless it is told where to look."""
    folder = None if _VARIABLE in os.environ else _folder_of_links()
    if folder is None:
        yield
        return
    os.environ[_VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


# The JVM opens jars when it first needs something of them, so the folder stays as long as the process.
@cache
def _folder_of_links() -> Path | None:
    """The parts of the installed package; None where links cannot be made."""
    installed, folder = Path(pyspark.__file__).parent, temporary_folder("spark")
    try:
        for name in _PARTS:
            if (installed / name).is_dir():
                (folder / name).symlink_to(installed / name, target_is_directory=True)
    except OSError:
        return None
    return folder
