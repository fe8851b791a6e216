from __future__ import annotations

import pytest

from clew.pipeline.spark.session import root_cause

STANDING = "\n=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent State: ACTIVE\nThread State: RUNNABLE\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "unknown"),
        ("Job aborted.\n\n", "Job aborted."),
        ("Traceback\n  at x.Error(y)\nOSError: No space left\n  at z", "OSError: No space left"),
        ("Job aborted: task lost\n  at a.b(c)\n  ... 24 more\n", "Job aborted: task lost"),
        (
            "Task 0 failed: Python worker exited unexpectedly (crashed).\n  at a.b\nCaused by: java.io.EOFException\n",
            "Python worker exited unexpectedly. The system may have killed it because of low memory.",
        ),
        (f"[STREAM_FAILED] The task was lost{STANDING}", "[STREAM_FAILED] The task was lost"),
        (f"MemoryError: too much{STANDING}Error of the past", "MemoryError: too much"),
    ],
)
def test_the_line_that_a_person_can_act_on(text: str, sentence: str) -> None:
    assert root_cause(text) == sentence
