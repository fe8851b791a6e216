"""Tests of import hooks."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from clew.capture.tracking import when_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"imported_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_action_runs_after_the_import(module: str) -> None:
    calls: list[int] = []
    when_imported(module, lambda: calls.append(sys.modules[module].value))
    assert calls == []
    importlib.import_module(module)
    assert calls == [1]


def test_find_spec_does_not_consume_the_action(module: str) -> None:
    calls: list[str] = []
    when_imported(module, lambda: calls.append("now"))
    assert importlib.util.find_spec(module) is not None
    assert calls == []
    importlib.import_module(module)
    assert calls == ["now"]


def test_action_runs_immediately_for_an_imported_module() -> None:
    calls: list[str] = []
    when_imported("json", lambda: calls.append("now"))
    assert calls == ["now"]


def test_failing_action_does_not_fail_the_import(module: str) -> None:
    def fail() -> None:
        raise RuntimeError

    when_imported(module, fail)
    assert importlib.import_module(module).value == 1
