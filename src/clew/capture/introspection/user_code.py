"""Distinguish user code from library code; guard against re-entrant tracing."""

from __future__ import annotations

import functools
import inspect
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType


_PATHS = sysconfig.get_paths()
_LIBRARY_FOLDERS = tuple(
    sorted(
        {str(Path(_PATHS[key]).resolve()) + "/" for key in ("stdlib", "platstdlib", "purelib", "platlib")}
        | {_PATHS["stdlib"] + "/"}
    )
)
# The package `clew.capture`.
_OWN_FOLDER = str(Path(__file__).resolve().parents[1]) + "/"
# Keyed by file: code objects of different files may be equal.
_cache: dict[str, bool] = {}


def is_user_code(code: CodeType) -> bool:
    """Return whether `code` was written by the user: no library, not the standard library, not clew itself."""
    filename = code.co_filename
    is_user = _cache.get(filename)
    if is_user is None:
        is_user = _cache[filename] = _is_user_file(filename)
    return is_user


def _is_user_file(filename: str) -> bool:
    if filename.startswith("<frozen") or "/site-packages/" in filename or "/dist-packages/" in filename:
        return False
    if filename.startswith((_OWN_FOLDER, f"{sys.base_prefix}/lib/python", *_LIBRARY_FOLDERS)):
        return False
    return not any(_is_site_packages(folder) for folder in sys.path if folder and filename.startswith(f"{folder}/"))


@functools.cache
def _is_site_packages(folder: str) -> bool:
    """Return whether packages are installed in a folder of `sys.path`."""
    return any(Path(folder).glob("*.dist-info/RECORD"))


def innermost_user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of user code on the stack of a frame."""
    while frame is not None and not is_user_code(frame.f_code):
        frame = frame.f_back
    return frame


class ReentrancyGuard(threading.local):
    """Depth of the running pandas call in this thread; only calls at depth 0 are traced."""

    depth = 0
    # Whether pandas is calling a function of the user.
    is_callback = False


guard = ReentrancyGuard()


# References to the dictionary of locals: of the frame, of the variable and of the argument of getrefcount.
_UNSHARED = 3


def read_locals(frame: FrameType) -> dict[str, Any]:
    """Return the local variables of a frame, which does not keep their values alive.

    Before Python 3.13, the frame of a function keeps the dictionary of its locals until it ends, also deleted values.
    """
    names = frame.f_locals
    if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return names
    copied = dict(names)
    # The same dictionary is the result of `locals()`: it is not cleared if the user has it.
    if sys.version_info < (3, 13) and sys.getrefcount(names) <= _UNSHARED:
        names.clear()
    return copied


def strip_frame(error: BaseException, count: int = 1) -> None:
    """Remove the calling frame, or the first `count` frames, from the traceback of an exception that it caught.

    Frames of capture that follow are removed, too. A bare `raise` does not add the frame again, so the traceback is
    that of a call without capture.
    """
    trace = error.__traceback__
    while trace is not None and (count > 0 or trace.tb_frame.f_code.co_filename.startswith(_OWN_FOLDER)):
        trace = trace.tb_next
        count -= 1
    error.__traceback__ = trace


@contextmanager
def _guard_depth(depth: int, *, is_callback: bool = False) -> Iterator[None]:
    previous = guard.depth, guard.is_callback
    guard.depth, guard.is_callback = depth, is_callback
    try:
        yield
    finally:
        guard.depth, guard.is_callback = previous


def tracing_enabled() -> AbstractContextManager[None]:
    """Trace calls again while a user callback runs."""
    return _guard_depth(0, is_callback=True)


def tracing_suppressed() -> AbstractContextManager[None]:
    """Suppress tracing while clew itself calls a library."""
    return _guard_depth(1)
