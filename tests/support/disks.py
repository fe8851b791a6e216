"""Disks that block fsync."""

from __future__ import annotations

import os
import threading

import pytest

TIMEOUT_S = 20


class BlockedDisk:
    """A disk on which every fsync waits until `release` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fsync_requested = threading.Event()
        self._released = threading.Event()
        fdatasync = os.fdatasync

        def block(file: int) -> None:
            self.fsync_requested.set()
            self._released.wait(TIMEOUT_S)
            fdatasync(file)

        monkeypatch.setattr(os, "fdatasync", block)

    def release(self) -> None:
        self._released.set()
