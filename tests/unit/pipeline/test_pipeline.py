"""Tests of the pipeline without a JVM."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.maintenance import MaintenanceConfig
from clew.pipeline.pipeline import Pipeline
from clew.progress import no_progress


class DeadSession:
    """A session whose JVM was killed."""

    def __getattr__(self, name: str) -> Any:
        raise Py4JNetworkError("Error while sending or receiving")


@pytest.mark.parametrize("config", [None, MaintenanceConfig()])
@pytest.mark.parametrize("is_warm", [True, False])
def test_reports_a_killed_jvm_in_one_sentence(
    *, config: MaintenanceConfig | None, is_warm: bool, home: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = DeadSession()
    if is_warm:
        monkeypatch.setattr("clew.pipeline.pipeline.warm_up", lambda _: None)
    with IndexWriter(home.index) as index, pytest.raises(ClewError, match=r"The pipeline stopped: .*\n.*it resumes"):
        Pipeline(session, home, Lake(home.lake), index, no_progress).stream(Event(), maintenance=config)
