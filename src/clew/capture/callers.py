"""Whose code called: the user's own, or a library's."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

_PATHS = sysconfig.get_paths()
_LIBRARY_FOLDERS = tuple(
    sorted(
        {str(Path(_PATHS[key]).resolve()) + "/" for key in ("stdlib", "platstdlib", "purelib", "platlib")}
        | {_PATHS["stdlib"] + "/"}
    )
)
_OWN_FOLDER = str(Path(__file__).resolve().parent) + "/"
# By file: code objects of different files may be equal.
_known: dict[str, bool] = {}


def is_user_code(code: CodeType) -> bool:
    """Whether `code` was written by the user: no library, no standard library, not clew itself."""
    filename = code.co_filename
    known = _known.get(filename)
    if known is None:
        known = _known[filename] = _is_user_file(filename)
    return known


def _is_user_file(filename: str) -> bool:
    if filename.startswith("<frozen") or "/site-packages/" in filename or "/dist-packages/" in filename:
        return False
    if filename.startswith((_OWN_FOLDER, f"{sys.base_prefix}/lib/python", *_LIBRARY_FOLDERS)):
        return False
    return not any(_holds_distributions(folder) for folder in sys.path if folder and filename.startswith(f"{folder}/"))


@functools.cache
def _holds_distributions(folder: str) -> bool:
    """Whether packages were installed into a folder of the path: what stands there was not written by the user."""
    return any(Path(folder).glob("*.dist-info/RECORD"))
