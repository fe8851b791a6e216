"""What may happen to Spark, as a person can act on it: a worker that was killed, a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from clew.errors import ClewError

_WORKER_ENDED: Final = "Python worker exited unexpectedly"
_PERHAPS_KILLED: Final = f"{_WORKER_ENDED}. The system may have killed it for want of memory."
_OF_A_TRACE: Final = ("at ", "... ")

RETRY: Final = "Nothing is lost: mend the cause and run it again; it goes on where it stopped."


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """Turn a fault of a job of Spark into one that says what to do."""
    try:
        yield
    except (PySparkException, Py4JError) as fault:
        raise ClewError(f"The pipeline stopped: {sentence_of(str(fault))}", hint=RETRY) from fault


def sentence_of(text: str) -> str:
    """The line of a long Python-in-JVM trace that a person can act on."""
    # After it Spark tells how the query stood, and not what was wrong.
    told, _, _ = text.partition("=== Streaming Query ===")
    lines = [line.strip() for line in told.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_OF_A_TRACE)]
    errors = [line for line in lines if "Error" in line]
    if not errors and _WORKER_ENDED in told:
        return _PERHAPS_KILLED
    return (errors or lines or ["unknown"])[-1][:500]
