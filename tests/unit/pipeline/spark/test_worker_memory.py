"""Memory goes back to the system when there is much of it, and only then."""

from __future__ import annotations

import pytest

from clew.pipeline.spark import worker_memory


@pytest.mark.parametrize(("held", "is_given_back"), [(64 << 20, False), (512 << 20, True)])
def test_a_process_that_holds_much_gives_it_back_after_its_work(
    held: int, is_given_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(worker_memory, "_resident_bytes", lambda: held)
    monkeypatch.setattr(worker_memory, "trim_heap", lambda: done.append("given back"))
    worker_memory.trims_heap_after(done.append)("worked")
    assert done == ["worked", "given back"][: 1 + is_given_back]


def test_it_keeps_it_for_a_task_like_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(worker_memory, "_resident_bytes", lambda: 512 << 20)
    monkeypatch.setattr(worker_memory, "trim_heap", lambda: done.append("given back"))
    worker_memory.trims_heap_after(worker_memory.skip_trim_after_task)()
    assert done == []
    worker_memory.trims_heap_after(done.append)("worked otherwise")
    assert done == ["worked otherwise", "given back"]


def test_a_process_knows_what_it_holds_and_can_give_back() -> None:
    worker_memory.trim_heap()
    assert 1 << 20 < worker_memory._resident_bytes() < 1 << 40
