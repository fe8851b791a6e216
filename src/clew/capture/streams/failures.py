"""What is told of an exception that ended a cell."""

from __future__ import annotations

import traceback

from clew.capture.callers import is_user_code
from clew.capture.streams.entries import Failure
from clew.capture.streams.redaction import redacted


def failure_of(error: BaseException) -> Failure:
    """An exception in its own words, with the frames of the user's code only."""
    return Failure(type(error).__name__, _message(error), _user_traceback(error))


def _message(error: BaseException) -> str:
    """What an exception says; some fail even at that."""
    try:
        return redacted(str(error))
    except Exception as failure:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(no message: {type(failure).__name__})"


def _user_traceback(error: BaseException) -> str:
    """The lines of a traceback that are the user's own."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    summary = traceback.extract_tb(error.__traceback__)
    kept = [line for frame, line in zip(frames, summary, strict=True) if is_user_code(frame.f_code)]
    return redacted("".join(traceback.format_list(kept)))
