"""Versions of what lies outside the notebook: files and tables that were read, and those that were written here."""

from __future__ import annotations

from clew.capture.datasets import FileDataset
from clew.capture.versions import FrameVersion

_written: dict[FileDataset, FrameVersion] = {}


def outside(dataset: FileDataset) -> FrameVersion:
    """A version that stands for a file or a table."""
    version = FrameVersion()
    version.dataset = dataset
    return version


def remember_written(version: FrameVersion) -> None:
    """Keep the last version of each file, so that it can be asked for by its path and read back with its lineage."""
    if version.dataset is not None:
        _written[version.dataset] = version


def written_to(dataset: FileDataset) -> FrameVersion | None:
    """The version last written to a file by this process."""
    return _written.get(dataset)
