"""Tests of reading marimo notebook files."""

from __future__ import annotations

import ast

import pytest

from clew.capture.environments.marimo import Notebook

SOURCE = """
import marimo
app = marimo.App(width="medium")

with app.setup:
    import pandas as pd

@app.cell
def load():
    # a comment
    df = pd.DataFrame({"a": [1]})
    return (df,)

@app.cell(hide_code=True)
async def _(df):
    await sleep(1)
    return

@app.function
def double(x):
    return 2 * x
"""


def parse_notebook() -> Notebook:
    notebook = Notebook.from_tree(ast.parse(SOURCE))
    assert notebook is not None
    return notebook


def test_cells_are_read_in_order() -> None:
    assert [(cell.index, cell.name) for cell in parse_notebook().cells] == [
        (1, "setup"),
        (2, "load"),
        (3, None),
        (4, "double"),
    ]


@pytest.mark.parametrize(
    ("source", "index"),
    [
        ("import pandas as pd", 1),
        ('df=pd.DataFrame( {"a":[1]} )', 2),
        ("await sleep(1)", 3),
        ("def double(x):\n    return 2 * x", 4),
        ("something = 'else'", None),
    ],
)
def test_find_compares_syntax_trees(source: str, index: int | None) -> None:
    cell = parse_notebook().find(source)
    assert (cell.index if cell is not None else None) == index


def test_script_is_not_a_notebook() -> None:
    assert Notebook.from_tree(ast.parse("print(1)")) is None


def test_find_ignores_indentation_of_strings() -> None:
    source = (
        "import marimo\napp = marimo.App()\n@app.cell\ndef totals(mo, orders):\n"
        '    totals = mo.sql(\n        f"""\n        SELECT *\n        FROM orders\n        """\n    )\n'
        "    return (totals,)\n"
    )
    notebook = Notebook.from_tree(ast.parse(source))
    assert notebook is not None
    cell = notebook.find('totals = mo.sql(\n    f"""\n    SELECT *\n    FROM orders\n    """\n)')
    assert cell is not None
    assert cell.name == "totals"
