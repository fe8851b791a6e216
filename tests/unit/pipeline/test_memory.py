"""Memory goes back to the system when there is much of it, and only then."""

from __future__ import annotations

import pytest

from clew.pipeline import memory


@pytest.mark.parametrize(("held", "is_given_back"), [(64 << 20, False), (512 << 20, True)])
def test_a_process_that_holds_much_gives_it_back_after_its_work(
    held: int, is_given_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(memory, "_held_bytes", lambda: held)
    monkeypatch.setattr(memory, "give_back", lambda: done.append("given back"))
    memory.giving_back(done.append)("worked")
    assert done == ["worked", "given back"][: 1 + is_given_back]


def test_it_keeps_it_for_a_task_like_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(memory, "_held_bytes", lambda: 512 << 20)
    monkeypatch.setattr(memory, "give_back", lambda: done.append("given back"))
    memory.giving_back(memory.keep)()
    assert done == []
    memory.giving_back(done.append)("worked otherwise")
    assert done == ["worked otherwise", "given back"]


def test_a_process_knows_what_it_holds_and_can_give_back() -> None:
    memory.give_back()
    assert 1 << 20 < memory._held_bytes() < 1 << 40
