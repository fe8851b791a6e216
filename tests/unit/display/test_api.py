"""Tests of `clew.lineage`, `clew.explain` and `df.lineage` in a process with tracked pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

FRAMES = """
import clew
clew.track()
import json, msgspec, sys
import pandas as pd
from clew.errors import ClewError
orders = pd.DataFrame({"id": [1, 2], "qty": [3, 4], "cust": [1, 1]})
customers = pd.DataFrame({"cust": [1], "name": ["<a>"]})
both = orders.merge(customers, on="cust")
both["total"] = both["qty"] * 2
top = both[both["total"] > 6].groupby("name").agg(s=("total", "sum")).reset_index()

def error_of(call):
    try:
        return call()
    except ClewError as error:
        return str(error)
"""
WITH_WIDGETS = """
import clew.pandas
widget = clew.lineage(top).widget()
seen = []
widget.observe(lambda change: seen.append(change["new"]), "selected")
widget.set_state({"selected": {"node": 1, "frame": "both", "column": "total"}})
print(json.dumps({
    "explained": clew.explain(top["s"]),
    "text": repr(clew.lineage(top, column="name")),
    "graph": msgspec.to_builtins(clew.lineage(top, column="s").graph()),
    "pictures": [clew.lineage(top)._repr_html_() for _ in range(2)],
    "accessor": [repr(top.lineage), repr(clew.lineage(top)), repr(top.lineage("s"))],
    "unknown": error_of(lambda: clew.lineage(top, column="sum")),
    "bundle": {kind: str(value) for kind, value in clew.lineage(top)._repr_mimebundle_()[0].items()},
    "accessor bundle": sorted(top.lineage._repr_mimebundle_()[0]),
    "displayed": [type(shown._display_()).__name__ for shown in (clew.lineage(top), top.lineage)],
    "selected": [seen, widget.selected],
}))
"""
# Only the base install and pandas.
WITHOUT_WIDGETS = """
absent = ["anywidget", "traitlets", "click", "rich", "zstandard", "pyarrow", "starlette"]
sys.modules.update(dict.fromkeys(absent))
shown = clew.lineage(top)
print(json.dumps({
    "bundle": sorted(shown._repr_mimebundle_()),
    "picture": shown.svg(),
    "widget": error_of(shown.widget),
}))
"""


def run_code(code: str) -> dict[str, Any]:
    process = subprocess.run([sys.executable, "-c", FRAMES + code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    result: dict[str, Any] = json.loads(process.stdout)
    return result


@pytest.fixture(scope="module")
def output() -> dict[str, Any]:
    return run_code(WITH_WIDGETS)


def test_explain_in_sentences(output: dict[str, Any]) -> None:
    assert output["explained"].splitlines() == [
        "series.s is copied from top.s.",
        "top.s is aggregated from both.total.",
        "both.total is computed from orders.qty.",
        "The rows of top were filtered by both.total and grouped by both.name.",
        "The rows of both were joined on orders.cust and customers.cust.",
    ]


def test_lineage_of_a_column_as_text(output: dict[str, Any]) -> None:
    assert output["text"].splitlines() == [
        "name <- customers.name IDENTITY",
        "* <- orders.cust JOIN",
        "* <- customers.cust JOIN",
        "* <- orders.qty FILTER",
        "* <- customers.name GROUP_BY",
    ]


def test_lineage_of_a_column_as_a_graph(output: dict[str, Any]) -> None:
    nodes, links = output["graph"]["nodes"], output["graph"]["links"]

    def name(number: int, column: str | None) -> str:
        return f"{nodes[number]['title']}.{column}"

    actual = {
        (name(link["source"], link["source_column"]), name(link["target"], link["column"]), link["subtype"])
        for link in links
    }
    assert actual == {
        ("both.total", "top.s", "AGGREGATION"),
        ("orders.qty", "both.total", "TRANSFORMATION"),
        ("both.total", "top.None", "FILTER"),
        ("both.name", "top.None", "GROUP_BY"),
        ("orders.cust", "both.None", "JOIN"),
        ("customers.cust", "both.None", "JOIN"),
    }


def test_svg_is_deterministic(output: dict[str, Any]) -> None:
    first, second = output["pictures"]
    assert first == second
    assert first.count('class="title"') == 4
    assert 'data-frame="both" data-column="total"' in first
    assert ' class="indirect"' in first


def test_accessor_equals_function(output: dict[str, Any]) -> None:
    by_accessor, by_function, of_column = output["accessor"]
    assert by_accessor == by_function
    assert of_column.startswith("s <- orders.qty AGGREGATION\n")


def test_unknown_column_error(output: dict[str, Any]) -> None:
    assert output["unknown"] == "top has no column 'sum'.\nIts columns: name, s."


def test_mimebundle_has_widget_svg_and_text(output: dict[str, Any]) -> None:
    bundle = output["bundle"]
    assert bundle.keys() == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert sorted(bundle) == output["accessor bundle"]
    assert bundle["text/plain"].startswith("name <- customers.name IDENTITY")
    assert "<svg " in bundle["text/html"]


def test_marimo_displays_the_widget(output: dict[str, Any]) -> None:
    assert output["displayed"] == ["LineageWidget", "LineageWidget"]


def test_widget_selection(output: dict[str, Any]) -> None:
    selection = {"node": 1, "frame": "both", "column": "total"}
    assert output["selected"] == [[selection], selection]


def test_svg_without_the_widget_extra() -> None:
    output = run_code(WITHOUT_WIDGETS)
    assert output["bundle"] == ["text/html", "text/plain"]
    assert output["picture"].startswith("<svg ")
    assert output["widget"] == (
        "This needs the module 'anywidget', which is not installed.\nInstall it: pip install 'clew[widget]'"
    )


def test_importing_clew_does_not_import_display() -> None:
    code = "import clew; clew.track; import sys; print([name for name in sys.modules if 'clew.display' in name])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


@pytest.mark.parametrize(
    "imports",
    [
        "import clew; clew.track(); import pandas as pd",
        "import pandas as pd; import clew",
        "import clew, clew.pandas; import pandas as pd",
    ],
)
def test_accessor_is_registered_in_any_import_order(imports: str) -> None:
    code = f"""{imports}
frame = pd.DataFrame({{"x": [1]}})
assert type(frame.lineage) is pd.DataFrame.lineage
own = pd.DataFrame({{"lineage": [1, 2]}})
own.lineage = own.lineage + 1
assert own.lineage.tolist() == own["lineage"].tolist() == [2, 3]
frame.lineage = "mine"
assert frame.lineage == "mine"
"""
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_importing_clew_does_not_import_pandas() -> None:
    code = "import clew, sys; assert 'pandas' not in sys.modules and 'clew.pandas' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
