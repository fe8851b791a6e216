"""Tests of the text of `clew pipeline status`."""

from __future__ import annotations

from typing import Any

import pytest

from clew.cli.output import format_bytes
from clew.cli.render.runs import status_lines
from clew.eventlog.retention import Lag
from clew.lake.history import Rejection
from clew.pipeline.locks import LockHolder
from clew.pipeline.status import IndexStatus, PipelineStatus, RejectionSummary

IDLE: dict[str, Any] = {
    "home": "home",
    "locked_by": None,
    "log": Lag(2_000, 2_000, 0, 0, is_estimate=False),
    "unread_stream_bytes": 0,
    "index": IndexStatus("2026-01-01T10:00:00.000+00:00", "app/3", 1_900),
    "batches": [],
    "rejected": RejectionSummary(0, 0, []),
    "tables": [],
}
REJECTION = Rejection("file", "not_json", "no text")
LINES = {
    "no lag": ({}, "Log       up to date (2.0 kB ingested)"),
    "not running": ({}, "Pipeline  not running"),
    "running": ({"locked_by": LockHolder(7, "then")}, "Pipeline  running (process 7, since then)"),
    "lag": (
        {"log": Lag(1_000, 2_500, 1_500, 1, is_estimate=False)},
        "Log       lag 1 event (1.5 kB); ingested up to offset 1,000 of 2,500",
    ),
    "estimated lag": (
        {"log": Lag(0, 10**9, 10**9, 150_000, is_estimate=True)},
        "Log       lag about 150,000 events (1.0 GB); ingested up to offset 0 of 1,000,000,000",
    ),
    "other log": (
        {"log": Lag(2_000, 10, 0, 0, is_estimate=False)},
        "Log       ends at offset 10, before the committed offset 2,000; is this another log?",
    ),
    "pending backfill": (
        {"pending_backfill_events": 12},
        "Facets    12 events not backfilled; run `clew pipeline backfill`",
    ),
    "unread streams": ({"unread_stream_bytes": 12}, "Capture   12 B of notebook events not read yet"),
    "index": ({}, "Index     last written 2026-01-01T10:00:00.000+00:00, by batch app/3"),
    "no index": ({"index": None}, "Index     none yet; the next run builds it"),
    "nothing rejected": ({}, "Rejected  no events"),
    "rejected": ({"rejected": RejectionSummary(1, None, [REJECTION])}, "Rejected  1 event"),
    "rejection reason": ({"rejected": RejectionSummary(1, 1, [REJECTION])}, "          file: not_json, no text"),
    "replayed": ({"rejected": RejectionSummary(3, 1, [])}, "Rejected  3 events, 2 of them ingested since"),
}


@pytest.mark.parametrize(("changes", "line"), LINES.values(), ids=LINES)
def test_status_lines(changes: dict[str, Any], line: str) -> None:
    assert line in list(status_lines(PipelineStatus(**{**IDLE, **changes})))


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_340_000, "2.3 MB"), (5 * 10**12, "5,000.0 GB")],
)
def test_format_bytes(amount: int, text: str) -> None:
    assert format_bytes(amount) == text
