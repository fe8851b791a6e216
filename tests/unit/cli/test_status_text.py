"""The pipeline's state in words."""

from __future__ import annotations

from typing import Any

import pytest

from clew.cli.figures import filesize
from clew.cli.status_text import status_lines
from clew.collector.lag import Lag
from clew.pipeline.lock import Holder
from clew.pipeline.status import Indexed, Rejected, Rejection, Status

QUIET: dict[str, Any] = {
    "home": "home",
    "holder": None,
    "log": Lag(2_000, 2_000, 0, 0, is_estimate=False),
    "streams_bytes": 0,
    "index": Indexed("2026-01-01T10:00:00.000+00:00", "app/3", 1_900),
    "batches": [],
    "rejected": Rejected(0, 0, []),
    "tables": [],
}
REJECTION = Rejection("file", "not_json", "no text")
LINES = {
    "quiet": ({}, "Log       all 2.0 kB taken in"),
    "no one": ({}, "Pipeline  nobody is at work"),
    "someone": ({"holder": Holder(7, "then")}, "Pipeline  at work: process 7, since then"),
    "waiting": (
        {"log": Lag(1_000, 2_500, 1_500, 1, is_estimate=False)},
        "Log       1 event waiting (1.5 kB), taken in up to 1,000 of 2,500",
    ),
    "much waiting": (
        {"log": Lag(0, 10**9, 10**9, 150_000, is_estimate=True)},
        "Log       about 150,000 events waiting (1.0 GB), taken in up to 0 of 1,000,000,000",
    ),
    "another log": (
        {"log": Lag(2_000, 10, 0, 0, is_estimate=False)},
        "Log       ends at 10, before the position 2,000 that was read already: is it another log?",
    ),
    "facets": ({"without_facets": 12}, "Facets    12 events without them: run `clew pipeline backfill`"),
    "streams": ({"streams_bytes": 12}, "Streams   12 B that no run has read yet"),
    "index": ({}, "Index     last written 2026-01-01T10:00:00.000+00:00, by batch app/3"),
    "no index": ({"index": None}, "Index     none yet: the next run builds it"),
    "nothing rejected": ({}, "Rejected  no events"),
    "rejected": ({"rejected": Rejected(1, None, [REJECTION])}, "Rejected  1 event"),
    "a reason": ({"rejected": Rejected(1, 1, [REJECTION])}, "          file: not_json, no text"),
    "replayed": ({"rejected": Rejected(3, 1, [])}, "Rejected  3 events, 2 of them taken in since"),
}


@pytest.mark.parametrize(("found", "line"), LINES.values(), ids=LINES)
def test_a_state_is_a_line(found: dict[str, Any], line: str) -> None:
    assert line in list(status_lines(Status(**{**QUIET, **found})))


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_340_000, "2.3 MB"), (5 * 10**12, "5,000.0 GB")],
)
def test_sizes(amount: int, text: str) -> None:
    assert filesize(amount) == text
