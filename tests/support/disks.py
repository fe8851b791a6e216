"""Disks that keep a collector waiting."""

from __future__ import annotations

import threading

import pytest

from clew.collector.fsync_process import FsyncHelper

SECONDS = 20


class HeldDisk:
    """Every sync waits until the disk is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_asked = threading.Event()
        self._goes_on = threading.Event()
        begin = FsyncHelper.start

        def begin_later(syncer: FsyncHelper, file: int) -> None:
            self._goes_on.wait(SECONDS)
            begin(syncer, file)

        def hold(syncer: FsyncHelper, file: int) -> None:
            self.is_asked.set()
            threading.Thread(target=begin_later, args=(syncer, file)).start()

        monkeypatch.setattr(FsyncHelper, "start", hold)

    def let_go(self) -> None:
        self._goes_on.set()
