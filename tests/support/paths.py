"""Paths of the project that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CASES = ROOT / "tests" / "cases"
PIPELINE_CASES = CASES / "pipeline"
PAGE_TESTS = ROOT / "tests" / "e2e" / "page"
