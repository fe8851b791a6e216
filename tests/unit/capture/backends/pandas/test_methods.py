"""Tests of column lineage of pandas: each case runs `setup` and `code` and compares the edges of the output.

`fields` lists the edges of each output column as `source.column SUBTYPE`, `rows` those of the whole output. Reported
edges must be exactly these. `inferred` and `opaque` require marked edges.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.support.paths import CASES, DOCS, ROOT

import clew
from clew.capture.backends.pandas import methods
from clew.capture.diagnostics import error_counts, reset_errors

CASE_FOLDER = CASES / "capture"
SHARED_CASES = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared")) / "cases" / "pandas_lineage.yaml"
# The code of a case may cause warnings of pandas and leave files open.
pytestmark = pytest.mark.filterwarnings("ignore")


class ExpectedEdge(NamedTuple):
    """One edge as written in a case."""

    source: str
    column: str
    subtype: str


class ReportedLineage(NamedTuple):
    """Reported edges of each column and of all rows, and the columns with an opaque edge."""

    fields: dict[str, set[ExpectedEdge]]
    rows: set[ExpectedEdge]
    marked: set[str]


def run_case(setup: str, code: str, output: str, sources: list[str] | None) -> ReportedLineage:
    namespace: dict[str, Any] = {"pd": pd, "np": np}
    exec(compile(setup, "<setup>", "exec"), namespace)
    names = (
        [name for name, value in namespace.items() if isinstance(value, pd.DataFrame)] if sources is None else sources
    )
    tokens = [clew.version(namespace[name], name=name) for name in names if not name.startswith("file:")]
    exec(compile(code, "<code>", "exec"), namespace)
    edges = clew.lineage(output if output.startswith("file:") else namespace[output], until=tokens).edges()
    fields: dict[str, set[ExpectedEdge]] = defaultdict(set)
    for edge in edges:
        fields[str(edge.column)].add(ExpectedEdge(edge.source, str(edge.source_column), edge.subtype))
    marked = {str(edge.column) for edge in edges if edge.opaque}
    return ReportedLineage(fields, fields.pop("None", set()), marked)


def merge_rows(fields: dict[str, set[ExpectedEdge]], rows: set[ExpectedEdge]) -> dict[str, set[ExpectedEdge]]:
    return {column: edges | rows for column, edges in fields.items()}


@pytest.fixture(autouse=True)
def _track() -> None:
    clew.track()
    reset_errors()


def own_cases() -> list[Any]:
    files = sorted(CASE_FOLDER.glob("*.yaml"))
    return [
        pytest.param(case, id=f"{file.stem}-{case['id']}")
        for file in files
        for case in yaml.safe_load(file.read_text())
    ]


def _parse_edge(text: str) -> ExpectedEdge:
    field, subtype = text.rsplit(" ", 1)
    source, column = field.rsplit(".", 1) if field.startswith(("file:", "sqlite:")) else field.split(".", 1)
    return ExpectedEdge(source, column, subtype)


def _parse_edges(texts: str | list[str], folder: Path) -> set[ExpectedEdge]:
    return {_parse_edge(text.replace("{tmp}", str(folder))) for text in ([texts] if isinstance(texts, str) else texts)}


@pytest.mark.parametrize("case", own_cases())
def test_own_case(case: dict[str, Any], tmp_path: Path) -> None:
    if not _supports_case(case.get("pandas", "0")):
        pytest.skip(f"needs pandas {case['pandas']}")
    setup, code, output = (case.get(key, "out").replace("{tmp}", str(tmp_path)) for key in ("setup", "code", "output"))
    reported = run_case(setup, code, output, case.get("sources"))
    expected = {str(column): _parse_edges(edges, tmp_path) for column, edges in case["fields"].items()}
    rows = _parse_edges(case.get("rows", []), tmp_path)
    missing: dict[str, set[ExpectedEdge]] = {column: set() for column in expected if column not in reported.fields}
    assert merge_rows({**reported.fields, **missing}, reported.rows) == merge_rows(expected, rows)
    assert bool(reported.marked) == bool(case.get("inferred") or case.get("opaque"))
    assert error_counts() == {}


def _supports_case(version: str) -> bool:
    return tuple(map(int, pd.__version__.split(".")[:2])) >= tuple(map(int, f"{version}.0".split(".")[:2]))


def shared_cases() -> list[Any]:
    if not SHARED_CASES.is_file():
        return []
    return [pytest.param(case, id=case["id"]) for case in yaml.safe_load(SHARED_CASES.read_text())["cases"]]


@pytest.mark.skipif(not SHARED_CASES.is_file(), reason="the shared folder with its cases is not here")
@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case: dict[str, Any], tmp_path: Path) -> None:
    def expand(text: str) -> str:
        return text.replace("{tmp}", str(tmp_path))

    def edges(items: list[dict[str, str]]) -> set[ExpectedEdge]:
        return {ExpectedEdge(expand(edge["var"]), edge["col"], edge["subtype"]) for edge in items}

    lineage = run_case(
        expand(case["setup"]), expand(case["code"]), expand(case["output"]), [expand(name) for name in case["sources"]]
    )
    rows = edges(case["dataset"])
    optional = {column: edges(items) for column, items in case.get("optional", {}).items()}
    for column in {*case["fields"], *lineage.fields}:
        required = edges(case["fields"].get(column, [])) | rows
        allowed = required | optional.get(column, set()) | optional.get("*", set())
        reported = lineage.fields.get(column, set()) | lineage.rows
        assert required <= reported <= allowed, column
    assert error_counts() == {}


def test_table_has_one_row_per_method() -> None:
    names = [name for row, _ in methods._TABLE for name in row.split()]
    assert len(names) == len(set(names))


def test_documented_methods_have_a_row() -> None:
    section = (DOCS / "capture.md").read_text().split("### pandas")[1].split("Details:")[0]
    names = {name for name in re.findall(r"`(\w+)`", section) if hasattr(pd.DataFrame, name)}
    special = {"loc", "iloc", "values"}
    assert names - special - set(methods.METHODS) == set()
