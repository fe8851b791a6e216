"""What tests of every kind share."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of a folder with its name."""
    for item in items:
        for kind in ("spark", "e2e"):
            if item.path.is_relative_to(ROOT / "tests" / kind):
                item.add_marker(kind)


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of whoever runs the tests out of them."""
    for name in os.environ:
        if name.startswith(("CLEW_", "OPENLINEAGE_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material (cases, a corpus of public events, the spec), which is not part of the project."""
    folder = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no folder of shared material: name one in CLEW_SHARED")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium that starts."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    pytest.skip("no Chromium was found")
