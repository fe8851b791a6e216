"""Disks that block fsync."""

from __future__ import annotations

import threading

import pytest

from clew.collector.fsync_process import FsyncHelper

TIMEOUT_S = 20


class BlockedDisk:
    """A disk on which every fsync waits until `release` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fsync_requested = threading.Event()
        self._released = threading.Event()
        start_fsync = FsyncHelper.start

        def start_later(helper: FsyncHelper, file: int) -> None:
            self._released.wait(TIMEOUT_S)
            start_fsync(helper, file)

        def block(helper: FsyncHelper, file: int) -> None:
            self.fsync_requested.set()
            threading.Thread(target=start_later, args=(helper, file)).start()

        monkeypatch.setattr(FsyncHelper, "start", block)

    def release(self) -> None:
        self._released.set()
