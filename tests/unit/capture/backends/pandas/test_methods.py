"""Cases of column lineage, each run for real: `setup`, tokens of every frame it made, `code`, the edges of the output.

`fields` lists the edges of each output column as `source.column SUBTYPE`, `rows` those of the whole output. Reported
edges must be exactly these. `inferred` and `opaque` say that edges of the computed column must be marked as such.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import yaml
from tests.support.paths import CASES, ROOT

import clew
from clew.capture.diagnostics import error_counts, reset_errors

OWN = CASES / "capture"
SHARED = Path(os.environ.get("CLEW_SHARED", ROOT.parent / "shared")) / "cases" / "pandas_lineage.yaml"
# The code of a case is a user's: pandas may find fault with it, and it need not close its files.
pytestmark = pytest.mark.filterwarnings("ignore")


class Told(NamedTuple):
    """One edge as the cases write it."""

    source: str
    column: str
    subtype: str


class Answer(NamedTuple):
    """What was reported: edges of each column, those that hold for all, and the columns with a marked edge."""

    fields: dict[str, set[Told]]
    rows: set[Told]
    marked: set[str]


def ask(setup: str, code: str, output: str, sources: list[str] | None) -> Answer:
    namespace: dict[str, Any] = {"pd": pd, "np": np}
    exec(compile(setup, "<setup>", "exec"), namespace)
    names = (
        [name for name, value in namespace.items() if isinstance(value, pd.DataFrame)] if sources is None else sources
    )
    tokens = [clew.version(namespace[name], name=name) for name in names if not name.startswith("file:")]
    exec(compile(code, "<code>", "exec"), namespace)
    edges = clew.lineage(output if output.startswith("file:") else namespace[output], until=tokens).edges()
    fields: dict[str, set[Told]] = defaultdict(set)
    for edge in edges:
        fields[str(edge.column)].add(Told(edge.source, str(edge.source_column), edge.subtype))
    marked = {str(edge.column) for edge in edges if edge.opaque}
    return Answer(fields, fields.pop("None", set()), marked)


def flattened(fields: dict[str, set[Told]], rows: set[Told]) -> dict[str, set[Told]]:
    return {column: edges | rows for column, edges in fields.items()}


@pytest.fixture(autouse=True)
def _tracked() -> None:
    clew.track()
    reset_errors()


def own_cases() -> list[Any]:
    files = sorted(OWN.glob("*.yaml"))
    return [
        pytest.param(case, id=f"{file.stem}-{case['id']}")
        for file in files
        for case in yaml.safe_load(file.read_text())
    ]


def _told(text: str) -> Told:
    place, subtype = text.rsplit(" ", 1)
    source, column = place.rsplit(".", 1) if place.startswith(("file:", "sqlite:")) else place.split(".", 1)
    return Told(source, column, subtype)


def _tolds(given: str | list[str], folder: Path) -> set[Told]:
    return {_told(text.replace("{tmp}", str(folder))) for text in ([given] if isinstance(given, str) else given)}


@pytest.mark.parametrize("case", own_cases())
def test_own_case(case: dict[str, Any], tmp_path: Path) -> None:
    if not _is_for_this_pandas(case.get("pandas", "0")):
        pytest.skip(f"needs pandas {case['pandas']}")
    setup, code, output = (case.get(key, "out").replace("{tmp}", str(tmp_path)) for key in ("setup", "code", "output"))
    answer = ask(setup, code, output, case.get("sources"))
    expected = {str(column): _tolds(edges, tmp_path) for column, edges in case["fields"].items()}
    rows = _tolds(case.get("rows", []), tmp_path)
    missing: dict[str, set[Told]] = {column: set() for column in expected if column not in answer.fields}
    assert flattened({**answer.fields, **missing}, answer.rows) == flattened(expected, rows)
    assert bool(answer.marked) == bool(case.get("inferred") or case.get("opaque"))
    assert error_counts() == {}


def _is_for_this_pandas(wanted: str) -> bool:
    return tuple(map(int, pd.__version__.split(".")[:2])) >= tuple(map(int, f"{wanted}.0".split(".")[:2]))


def shared_cases() -> list[Any]:
    if not SHARED.is_file():
        return []
    return [pytest.param(case, id=case["id"]) for case in yaml.safe_load(SHARED.read_text())["cases"]]


@pytest.mark.skipif(not SHARED.is_file(), reason="the shared folder with its cases is not here")
@pytest.mark.parametrize("case", shared_cases())
def test_shared_case(case: dict[str, Any], tmp_path: Path) -> None:
    def here(text: str) -> str:
        return text.replace("{tmp}", str(tmp_path))

    def edges(given: list[dict[str, str]]) -> set[Told]:
        return {Told(here(edge["var"]), edge["col"], edge["subtype"]) for edge in given}

    answer = ask(
        here(case["setup"]), here(case["code"]), here(case["output"]), [here(name) for name in case["sources"]]
    )
    rows = edges(case["dataset"])
    optional = {column: edges(given) for column, given in case.get("optional", {}).items()}
    for column in {*case["fields"], *answer.fields}:
        required = edges(case["fields"].get(column, [])) | rows
        allowed = required | optional.get(column, set()) | optional.get("*", set())
        reported = answer.fields.get(column, set()) | answer.rows
        assert required <= reported <= allowed, column
    assert error_counts() == {}
