"""Tests of the root cause of Spark errors."""

from __future__ import annotations

import pytest

from clew.pipeline.spark.session import root_cause

QUERY_STATE = "\n=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent State: ACTIVE\nThread State: RUNNABLE\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "unknown"),
        ("Job aborted.\n\n", "Job aborted."),
        ("Traceback\n  at x.Error(y)\nOSError: No space left\n  at z", "OSError: No space left"),
        ("Job aborted: task lost\n  at a.b(c)\n  ... 24 more\n", "Job aborted: task lost"),
        (
            "Task 0 failed: Python worker exited unexpectedly (crashed).\n  at a.b\nCaused by: java.io.EOFException\n",
            "Python worker exited unexpectedly. The system may have killed it because of low memory.",
        ),
        (f"[STREAM_FAILED] The task was lost{QUERY_STATE}", "[STREAM_FAILED] The task was lost"),
        (f"MemoryError: too much{QUERY_STATE}Error of the past", "MemoryError: too much"),
    ],
)
def test_root_cause(text: str, cause: str) -> None:
    assert root_cause(text) == cause
