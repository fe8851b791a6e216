"""Tests of is_user_code and read_locals."""

from __future__ import annotations

import json
import sys
import weakref
from pathlib import Path

import pandas as pd
import pytest

from clew.capture import diagnostics
from clew.capture.introspection import user_code
from clew.capture.introspection.user_code import is_user_code, read_locals


def is_user_file(filename: str) -> bool:
    return is_user_code(compile("1", filename, "exec"))


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("/home/ann/book.py", True),
        ("/tmp/marimo_1/__marimo__cell_Hbol_.py", True),
        ("<string>", True),
        ("<ipython-input-1>", True),
        (pd.__file__, False),
        (json.__file__, False),
        (user_code.__file__, False),
        (diagnostics.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("/opt/venv/lib/python3.11/site-packages/seaborn/axes.py", False),
    ],
)
def test_is_user_code(filename: str, expected: bool) -> None:
    assert is_user_file(filename) == expected


def test_packages_in_any_folder_of_the_path_are_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seaborn-1.dist-info").mkdir()
    (tmp_path / "seaborn-1.dist-info" / "RECORD").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_user_file(str(tmp_path / "seaborn" / "axes.py"))


class Value:
    """A value whose end can be observed."""


def test_reading_locals_keeps_no_deleted_value() -> None:
    value = Value()
    reference = weakref.ref(value)
    assert read_locals(sys._getframe())["value"] is value
    del value
    assert reference() is None


def test_reading_locals_keeps_the_dictionary_of_the_user() -> None:
    value = Value()
    names = locals()
    assert read_locals(sys._getframe())["value"] is names["value"] is value


def test_reading_locals_of_a_module_copies_nothing() -> None:
    names: dict[str, object] = {"read_locals": read_locals, "sys": sys}
    exec("found = read_locals(sys._getframe())", names)
    assert names["found"] is names
