"""Tests of returning worker memory to the system."""

from __future__ import annotations

import pytest

from clew.pipeline.spark import worker_memory


@pytest.mark.parametrize(("resident_bytes", "is_trimmed"), [(64 << 20, False), (512 << 20, True)])
def test_trims_the_heap_after_a_large_task(
    resident_bytes: int, is_trimmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(worker_memory, "_resident_bytes", lambda: resident_bytes)
    monkeypatch.setattr(worker_memory, "trim_heap", lambda: calls.append("trim"))
    worker_memory.trims_heap_after(calls.append)("task")
    assert calls == ["task", "trim"][: 1 + is_trimmed]


def test_skip_trim_after_task(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(worker_memory, "_resident_bytes", lambda: 512 << 20)
    monkeypatch.setattr(worker_memory, "trim_heap", lambda: calls.append("trim"))
    worker_memory.trims_heap_after(worker_memory.skip_trim_after_task)()
    assert calls == []
    worker_memory.trims_heap_after(calls.append)("second task")
    assert calls == ["second task", "trim"]


def test_resident_bytes_is_plausible() -> None:
    worker_memory.trim_heap()
    assert 1 << 20 < worker_memory._resident_bytes() < 1 << 40
