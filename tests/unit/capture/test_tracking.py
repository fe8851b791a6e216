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


def test_acts_once_the_module_is_there(module: str) -> None:
    seen: list[int] = []
    when_imported(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    importlib.import_module(module)
    assert seen == [1]


def test_asking_for_the_spec_does_not_use_up_the_action(module: str) -> None:
    seen: list[str] = []
    when_imported(module, lambda: seen.append("now"))
    assert importlib.util.find_spec(module) is not None
    assert seen == []
    importlib.import_module(module)
    assert seen == ["now"]


def test_acts_at_once_if_it_was_imported_before() -> None:
    seen: list[str] = []
    when_imported("json", lambda: seen.append("now"))
    assert seen == ["now"]


def test_a_failing_action_does_not_fail_the_import(module: str) -> None:
    def fail() -> None:
        raise RuntimeError

    when_imported(module, fail)
    assert importlib.import_module(module).value == 1
