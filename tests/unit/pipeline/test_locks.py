"""Tests of the lake lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.pipeline.locks import acquire_lock, read_lock_holder


def test_names_the_holder_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lake" / ".lock"
    assert read_lock_holder(path) is None
    with acquire_lock(path):
        holder = read_lock_holder(path)
        assert holder is not None
        assert holder.pid == os.getpid()
        with (
            pytest.raises(ClewError, match=rf"Another pipeline is running .*process {os.getpid()}, since"),
            acquire_lock(path),
        ):
            pass
    assert read_lock_holder(path) is None
    with acquire_lock(path):
        pass


def test_reports_an_unknown_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with acquire_lock(path):
        path.write_text("")
        assert str(read_lock_holder(path)) == "unknown process"
