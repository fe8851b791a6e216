"""Install the wheel in dist/ into new environments with several versions of Python, and run clew in each.

With the first version, the source distribution is installed and run as well.

python scripts/check_wheel.py [--python 3.12 …] [--with pandas==2.2.3 …]

A version of Python that uv neither finds nor can download is skipped. For each version, the program prints the size of
the environment and the duration of the installation with the package cache of this machine. It exits with 1 if a
command failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
SCRIPT = """\
import pandas as pd

prices = pd.DataFrame({"item": ["tea", "milk"], "net": [3.0, 1.0]})
prices["gross"] = prices["net"] * 1.2
prices.to_csv("prices.csv", index=False)
"""


def main() -> None:
    """Check all versions of Python."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--with", nargs="+", default=[], metavar="REQUIREMENT", dest="requirements")
    arguments = parser.parse_args()
    wheels = sorted((ROOT / "dist").glob("clew-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        parser.error("there is no wheel in dist/; run make wheel")
    results = [check_version(wheels[-1], version, arguments.requirements) for version in arguments.python]
    sources = (ROOT / "dist").glob(wheels[-1].name.replace("-py3-none-any.whl", ".tar.gz"))
    results += [check_version(source, arguments.python[0], arguments.requirements) for source in sources]
    sys.exit(not all(results))


def check_version(distribution: Path, version: str, requirements: list[str]) -> bool:
    """Check a distribution with one version of Python; return whether all commands passed."""
    with tempfile.TemporaryDirectory(prefix="clew-wheel-") as name:
        folder = Path(name)
        python = folder / "venv" / "bin" / "python"
        if _run(["uv", "venv", "--quiet", "--python", version, folder / "venv"], folder) is not None:
            print(f"Python {version}: skipped, not available")
            return True
        start = time.monotonic()
        install: list[str | Path] = [
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            f"{distribution}[all,java]",
            *requirements,
        ]
        error = _run(install, folder)
        seconds = time.monotonic() - start
        (folder / "prices.py").write_text(SCRIPT)
        clew = folder / "venv" / "bin" / "clew"
        commands: tuple[list[str | Path], ...] = (
            [clew, "--version"],
            [clew, "run", "--home", "home", "prices.py"],
            [clew, "upstream", "prices.csv.gross", "--home", "home"],
            [clew, "demo", "--home", "home"],
            [clew, "doctor", "--home", "home"],
        )
        for command in commands:
            error = error or _run(command, folder)
        megabytes = sum(path.lstat().st_size for path in (folder / "venv").rglob("*")) / 1e6
        kind = "wheel" if distribution.suffix == ".whl" else "source distribution"
        result = f"{error or 'passed'}; installed in {seconds:.0f} s, {megabytes:,.0f} MB"
        print(f"Python {version}, {kind}: {result}", flush=True)
        return error is None


def _run(command: list[str | Path], folder: Path) -> str | None:
    """Run a command; return a description of its failure."""
    environment = {**os.environ, "HOME": str(folder), "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", _uv_cache())}
    environment.pop("VIRTUAL_ENV", None)
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return None
    return f"{' '.join(map(str, command))} exited with {result.returncode}:\n{result.stdout}{result.stderr}"


def _uv_cache() -> str:
    return subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
