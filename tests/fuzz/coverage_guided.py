"""Fuzz one target with atheris, guided by coverage.

uv run --with atheris python -m tests.fuzz.coverage_guided TARGET [options of libFuzzer, e.g. -runs=100000]
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Fuzz until a target raises."""
    # Not a dependency: its wheels do not exist for all platforms.
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["clew"]):
        targets = importlib.import_module("tests.fuzz.targets").TARGETS
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in targets:
        sys.exit(f"usage: python -m tests.fuzz.coverage_guided {{{','.join(targets)}}} [OPTIONS]")
    atheris.Setup(sys.argv, targets[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
