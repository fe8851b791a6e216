"""Environments with other releases of marimo and pandas than the locked ones, and a notebook to run in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT

BOOK = """
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
def book_text() -> str:
    """A notebook with every kind of cell that needs no further package."""
    return BOOK


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make an environment with some packages and give its interpreter; skip where they cannot be had."""
    uv = shutil.which("uv", path=os.pathsep.join((str(ROOT / ".tools" / "uv" / "bin"), os.environ.get("PATH", ""))))

    def make(*packages: str) -> Path:
        if uv is None:
            pytest.skip("uv was not found")
        folder = tmp_path_factory.mktemp("environment") / "venv"
        python = folder / "bin" / "python"
        for command in (
            ["venv", "--python", sys.executable, str(folder)],
            ["pip", "install", "--python", str(python), "msgspec", *packages],
        ):
            ended = subprocess.run([uv, "--quiet", *command], capture_output=True, text=True, check=False)
            if ended.returncode:
                pytest.skip(f"{' '.join(packages)} cannot be installed: {ended.stderr.strip()[-300:]}")
        return python

    return make
