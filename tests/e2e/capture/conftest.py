"""Fixtures of capture tests: environments with other package releases, and a notebook."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT

NOTEBOOK = """
import marimo
app = marimo.App()

with app.setup:
    import pandas as pd
    base = pd.DataFrame({"a": [1, 2, 3]})

@app.cell
async def waits():
    import asyncio
    await asyncio.sleep(0)
    big = base[base["a"] > 1]
    return (big,)

@app.cell
def stops(big):
    import marimo as mo
    mo.stop(len(big) > 0)
    never = big.head()
    return

@app.cell
def fails(big):
    big["nope"]
    return

@app.cell
def goes_on(big):
    _part = big.assign(b=lambda d: d["a"] * 2)
    total = _part["b"].sum()
    return (total,)

if __name__ == "__main__":
    app.run()
"""


@pytest.fixture(scope="session")
def notebook_source() -> str:
    """Return a notebook with every kind of cell that needs no other package."""
    return NOTEBOOK


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that creates an environment with packages and returns its interpreter, or skips."""
    uv = shutil.which("uv", path=os.pathsep.join((str(ROOT / ".tools" / "uv" / "bin"), os.environ.get("PATH", ""))))

    def create(*packages: str) -> Path:
        if uv is None:
            pytest.skip("uv was not found")
        folder = tmp_path_factory.mktemp("environment") / "venv"
        python = folder / "bin" / "python"
        for command in (
            ["venv", "--python", sys.executable, str(folder)],
            ["pip", "install", "--python", str(python), "msgspec", *packages],
        ):
            result = subprocess.run([uv, "--quiet", *command], capture_output=True, text=True, check=False)
            if result.returncode:
                pytest.skip(f"{' '.join(packages)} cannot be installed: {result.stderr.strip()[-300:]}")
        return python

    return create
