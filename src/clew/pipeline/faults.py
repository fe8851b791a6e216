"""Translation of Spark errors into user errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from clew.errors import ClewError

_WORKER_EXITED: Final = "Python worker exited unexpectedly"
_WORKER_KILLED: Final = f"{_WORKER_EXITED}. The system may have killed it because of low memory."
_STACK_FRAME_PREFIXES: Final = ("at ", "... ")

RETRY_HINT: Final = "No data was lost. Fix the cause and run the command again: it resumes where it stopped."


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raise errors of Spark as ClewError with a hint."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ClewError(f"The pipeline stopped: {root_cause(str(error))}", hint=RETRY_HINT) from error


def root_cause(text: str) -> str:
    """Extract the root cause from a Python-in-JVM stack trace."""
    # The state of the query follows, not the cause.
    trace, _, _ = text.partition("=== Streaming Query ===")
    lines = [line.strip() for line in trace.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_STACK_FRAME_PREFIXES)]
    errors = [line for line in lines if "Error" in line]
    if not errors and _WORKER_EXITED in trace:
        return _WORKER_KILLED
    return (errors or lines or ["unknown"])[-1][:500]
