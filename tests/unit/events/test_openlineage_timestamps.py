"""Tests of parsing timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.events.openlineage import parse_time, to_epoch_micros

TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T10:00:00Z", TEN),
        ("2026-01-01t10:00:00z", TEN),
        (" 2026-01-01T10:00:00Z\n", TEN),
        ("2026-01-01 10:00:00", TEN),
        ("2026-01-01T10:00:00.000", TEN),
        ("2026-01-01T10:00:00+00:00Z", TEN),
        ("2026-01-01T10:00:00+0000Z", TEN),
        ("2026-01-01T10:00:00Z[Europe/London]", TEN),
        ("2026-01-01T11:00:00+01:00[Europe/Berlin]", TEN),
        ("2026-01-01T15:30:00+05:30", TEN),
        ("2026-01-01T05:00:00.0-0500", TEN),
        ("2026-01-01T10:00:00.1Z", TEN + timedelta(milliseconds=100)),
        ("2026-01-01T10:00:00.123456Z", TEN + timedelta(microseconds=123456)),
        ("2026-01-01T10:00:00.123456789Z", TEN + timedelta(microseconds=123456)),
        ("2026-01-01T10:00:00.123456789+00:00[UTC]", TEN + timedelta(microseconds=123456)),
        ("2026-01-01", TEN - timedelta(hours=10)),
    ],
)
def test_parse_time(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected
    assert parse_time(text).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "1700000000", "2026-13-01T10:00:00Z", "2026-01-01T10:00:00+", "0001-01-01T00:00:00+14:00"],
)
def test_parse_time_rejects_invalid_text(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=zones)  # noqa: DTZ001  # a zone is added


@given(times)
def test_parse_time_round_trip(time: datetime) -> None:
    assert parse_time(time.isoformat()) == time
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=to_epoch_micros(time)) == time
