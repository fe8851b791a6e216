"""Tests of fitting replies to a token budget."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from clew.mcp.paging import ToolReply, count_label, fit_to_budget, truncate


class Words(BaseModel):
    words: list[str]


def reply(entries: int) -> ToolReply:
    return ToolReply("word " * entries, Words(words=["word"] * entries))


@pytest.mark.parametrize("tokens", [5, 10, 50, 100, 399, 400, 401, 10_000])
def test_includes_as_many_entries_as_fit(tokens: int) -> None:
    result = fit_to_budget(reply, 100, tokens)
    count = result.text.count("word")
    assert result.tokens <= tokens
    assert count == 100 or reply(count + 1).tokens > tokens


def test_minimal_reply_if_nothing_fits() -> None:
    assert fit_to_budget(reply, 100, 0) == reply(0)


@pytest.mark.parametrize(
    ("entries", "total", "expected"), [(3, 3, "3"), (2, 3, "shown 2 of 3"), (0, 0, "0"), (1, 2000, "shown 1 of 2,000")]
)
def test_count_label(entries: int, total: int, expected: str) -> None:
    assert count_label(entries, total) == expected


@pytest.mark.parametrize(
    ("text", "length", "expected"), [("a  b\n c", 9, "a b c"), ("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…")]
)
def test_truncate(text: str, length: int, expected: str) -> None:
    assert truncate(text, length) == expected
