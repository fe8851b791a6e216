"""The lock of a lake: one holder, whom others can name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.pipeline.lock import held, holder_of


def test_the_holder_is_named_as_long_as_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "lake" / ".lock"
    assert holder_of(path) is None
    with held(path):
        holder = holder_of(path)
        assert holder is not None
        assert holder.pid == os.getpid()
        with pytest.raises(ClewError, match=rf"Another pipeline is at work .*process {os.getpid()}, since"), held(path):
            pass
    assert holder_of(path) is None
    with held(path):
        pass


def test_a_holder_that_has_not_said_who_it_is_is_a_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with held(path):
        path.write_text("")
        assert str(holder_of(path)) == "unknown process"
