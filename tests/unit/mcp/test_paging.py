"""What is cut to fit, and how that is said."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from clew.mcp.paging import ToolReply, count_label, fit_to_budget, truncate


class Words(BaseModel):
    words: list[str]


def reply(entries: int) -> ToolReply:
    return ToolReply("word " * entries, Words(words=["word"] * entries))


@pytest.mark.parametrize("tokens", [5, 10, 50, 100, 399, 400, 401, 10_000])
def test_as_much_is_shown_as_fits(tokens: int) -> None:
    found = fit_to_budget(reply, 100, tokens)
    count = found.text.count("word")
    assert found.tokens <= tokens
    assert count == 100 or reply(count + 1).tokens > tokens


def test_what_cannot_fit_is_at_its_shortest() -> None:
    assert fit_to_budget(reply, 100, 0) == reply(0)


@pytest.mark.parametrize(
    ("entries", "total", "words"), [(3, 3, "3"), (2, 3, "shown 2 of 3"), (0, 0, "0"), (1, 2000, "shown 1 of 2,000")]
)
def test_shown(entries: int, total: int, words: str) -> None:
    assert count_label(entries, total) == words


@pytest.mark.parametrize(
    ("text", "length", "line"), [("a  b\n c", 9, "a b c"), ("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…")]
)
def test_clipped(text: str, length: int, line: str) -> None:
    assert truncate(text, length) == line
