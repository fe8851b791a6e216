"""`clew.lineage`, `clew.explain` and `df.lineage`, asked in a process in which pandas is tracked."""

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

def fault_of(ask):
    try:
        return ask()
    except ClewError as fault:
        return str(fault)
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
    "unknown": fault_of(lambda: clew.lineage(top, column="sum")),
    "bundle": {kind: str(value) for kind, value in clew.lineage(top)._repr_mimebundle_()[0].items()},
    "accessor bundle": sorted(top.lineage._repr_mimebundle_()[0]),
    "displayed": [type(shown._display_()).__name__ for shown in (clew.lineage(top), top.lineage)],
    "selected": [seen, widget.selected],
}))
"""
# With the base install and pandas alone.
WITHOUT_WIDGETS = """
absent = ["anywidget", "traitlets", "click", "rich", "zstandard", "pyarrow", "starlette"]
sys.modules.update(dict.fromkeys(absent))
shown = clew.lineage(top)
print(json.dumps({
    "bundle": sorted(shown._repr_mimebundle_()),
    "picture": shown.svg(),
    "widget": fault_of(shown.widget),
}))
"""


def printed(code: str) -> dict[str, Any]:
    ended = subprocess.run([sys.executable, "-c", FRAMES + code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return printed(WITH_WIDGETS)


def test_in_words_step_by_step(told: dict[str, Any]) -> None:
    assert told["explained"].splitlines() == [
        "series.s is copied from top.s.",
        "top.s is aggregated from both.total.",
        "both.total is computed from orders.qty.",
        "The rows of top were filtered by both.total and grouped by both.name.",
        "The rows of both were joined on orders.cust and customers.cust.",
    ]


def test_of_one_column_as_text(told: dict[str, Any]) -> None:
    assert told["text"].splitlines() == [
        "name <- customers.name IDENTITY",
        "* <- orders.cust JOIN",
        "* <- customers.cust JOIN",
        "* <- orders.qty FILTER",
        "* <- customers.name GROUP_BY",
    ]


def test_of_one_column_as_a_graph(told: dict[str, Any]) -> None:
    nodes, links = told["graph"]["nodes"], told["graph"]["links"]

    def name(place: int, column: str | None) -> str:
        return f"{nodes[place]['title']}.{column}"

    found = {
        (name(link["source"], link["source_column"]), name(link["target"], link["column"]), link["subtype"])
        for link in links
    }
    assert found == {
        ("both.total", "top.s", "AGGREGATION"),
        ("orders.qty", "both.total", "TRANSFORMATION"),
        ("both.total", "top.None", "FILTER"),
        ("both.name", "top.None", "GROUP_BY"),
        ("orders.cust", "both.None", "JOIN"),
        ("customers.cust", "both.None", "JOIN"),
    }


def test_as_a_picture_that_is_the_same_every_time(told: dict[str, Any]) -> None:
    first, second = told["pictures"]
    assert first == second
    assert first.count('class="title"') == 4
    assert 'data-frame="both" data-column="total"' in first
    assert ' class="indirect"' in first


def test_the_accessor_asks_the_same(told: dict[str, Any]) -> None:
    by_accessor, by_function, of_column = told["accessor"]
    assert by_accessor == by_function
    assert of_column.startswith("s <- orders.qty AGGREGATION\n")


def test_a_column_that_is_not_there_is_a_sentence(told: dict[str, Any]) -> None:
    assert told["unknown"] == "top has no column 'sum'.\nIts columns: name, s."


def test_jupyter_gets_the_widget_the_picture_and_the_text(told: dict[str, Any]) -> None:
    bundle = told["bundle"]
    assert bundle.keys() == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert sorted(bundle) == told["accessor bundle"]
    assert bundle["text/plain"].startswith("name <- customers.name IDENTITY")
    assert "<svg " in bundle["text/html"]


def test_marimo_gets_the_widget(told: dict[str, Any]) -> None:
    assert told["displayed"] == ["LineageWidget", "LineageWidget"]


def test_a_widgets_selection_is_a_value(told: dict[str, Any]) -> None:
    chosen = {"node": 1, "frame": "both", "column": "total"}
    assert told["selected"] == [[chosen], chosen]


def test_without_the_extra_the_picture_is_left() -> None:
    told = printed(WITHOUT_WIDGETS)
    assert told["bundle"] == ["text/html", "text/plain"]
    assert told["picture"].startswith("<svg ")
    assert told["widget"] == (
        "This needs the module 'anywidget', which is not installed.\nInstall it: pip install 'clew[widget]'"
    )


def test_importing_clew_loads_nothing_of_this() -> None:
    check = "import clew; clew.track; import sys; print([name for name in sys.modules if 'clew.display' in name])"
    ended = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(
    "given",
    [
        "import clew; clew.track(); import pandas as pd",
        "import pandas as pd; import clew",
        "import clew, clew.pandas; import pandas as pd",
    ],
)
def test_every_frame_has_its_lineage_once_pandas_and_clew_have_met(given: str) -> None:
    code = f"""{given}
frame = pd.DataFrame({{"x": [1]}})
assert type(frame.lineage) is pd.DataFrame.lineage
own = pd.DataFrame({{"lineage": [1, 2]}})
own.lineage = own.lineage + 1
assert own.lineage.tolist() == own["lineage"].tolist() == [2, 3]
frame.lineage = "mine"
assert frame.lineage == "mine"
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_clew_alone_brings_no_pandas() -> None:
    code = "import clew, sys; assert 'pandas' not in sys.modules and 'clew.pandas' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
