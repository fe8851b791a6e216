"""The lock of a lake: one holder, whom others can name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.pipeline.locks import acquire_lock, read_lock_holder


def test_the_holder_is_named_as_long_as_it_holds(tmp_path: Path) -> None:
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


def test_a_holder_that_has_not_said_who_it_is_is_a_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with acquire_lock(path):
        path.write_text("")
        assert str(read_lock_holder(path)) == "unknown process"
