"""Versions of external datasets: files and tables read, and those written by this process."""

from __future__ import annotations

from clew.capture.datasets import ExternalDataset
from clew.capture.versions import FrameVersion

_written: dict[ExternalDataset, FrameVersion] = {}


def external_version(dataset: ExternalDataset) -> FrameVersion:
    """Create a version of a file or a table."""
    version = FrameVersion()
    version.dataset = dataset
    return version


def record_written(version: FrameVersion) -> None:
    """Register the last version written to a file, for lineage by path and for reading it back."""
    if version.dataset is not None:
        _written[version.dataset] = version


def last_written(dataset: ExternalDataset) -> FrameVersion | None:
    """Return the version last written to a file by this process."""
    return _written.get(dataset)
