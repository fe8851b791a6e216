"""Tests of charts and models as consumers of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Streams = dict[str, list[dict[str, Any]]]
FRAME = "df = pd.DataFrame({'a': [1, 2, 3], 'b': [2.0, 3.0, 4.0], 'c': ['x', 'y', 'x'], 'unused': [0, 0, 1]})"
AGG = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"

ALTAIR = "import altair as alt\nalt.Chart(df).mark_bar()"
LINEAR = "from sklearn.linear_model import LinearRegression\nLinearRegression()"
PIPELINE = """from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
make_pipeline(StandardScaler())"""
CONDITION = "color=alt.condition('datum.b > 1', 'c', alt.value('red'))"
SEABORN = f"{AGG}import seaborn as sns\n"
KMEANS = "from sklearn.cluster import KMeans\nKMeans(2)"

# Code, kind, name and columns of the consumer.
CASES = {
    "altair": (f"{ALTAIR}.encode(x='a:Q', y=alt.Y('mean(b):Q'))", "chart", "altair.Chart", "ab"),
    "altair condition": (f"{ALTAIR}.encode(x='a', {CONDITION})", "chart", "altair.Chart", "abc"),
    "pyplot": (f"{AGG}plt.plot(df['a'], df['b'])", "chart", "matplotlib.plot", "ab"),
    "axes": (f"{AGG}fig, ax = plt.subplots()\nax.scatter('a', 'b', data=df)", "chart", "matplotlib.scatter", "ab"),
    "array": (f"{AGG}plt.hist(df['a'].to_numpy())", "chart", "matplotlib.hist", "a"),
    "pandas": (f"{AGG}df.plot(x='a', y='b')", "chart", "pandas.plot", "ab"),
    "pandas kind": (f"{AGG}df.plot.bar(x='c', y='b')", "chart", "pandas.plot", "bc"),
    "seaborn": (f"{SEABORN}sns.scatterplot(data=df, x='a', y='b', hue='c')", "chart", "seaborn.scatterplot", "abc"),
    "plotly": ("import plotly.express as px\npx.scatter(df, x='a', y='b')", "chart", "plotly.scatter", "ab"),
    "table": ("import marimo as mo\nmo.ui.table(df[['a', 'b']])", "table", "mo.ui.table", "ab"),
    "sklearn": (f"{LINEAR}.fit(df[['a']], df['b'])", "model", "sklearn.LinearRegression", "ab"),
    "sklearn array": (f"{KMEANS}.fit_predict(df[['a', 'b']].to_numpy())", "model", "sklearn.KMeans", "ab"),
    "sklearn pipeline": (f"{PIPELINE}.fit(df[['a', 'b']])", "model", "sklearn.Pipeline", "ab"),
}


@pytest.mark.parametrize(("source", "kind", "name", "columns"), CASES.values(), ids=CASES)
def test_a_consumer_is_a_dataset_with_the_columns_it_uses(
    run_cells: Callable[..., Streams], source: str, kind: str, name: str, columns: str
) -> None:
    streams = run_cells(FRAME, source)
    outputs = [
        (event["job"]["name"], output)
        for event in streams["marimo_lineage_events"]
        if event["eventType"] == "COMPLETE"
        for output in event["outputs"]
        if output["namespace"] != "marimo"
    ]
    assert [(output["namespace"], output["name"]) for _, output in outputs] == [(kind, f"book/cell2/{name}")]
    fields = outputs[0][1]["facets"]["columnLineage"]["fields"]
    assert sorted(fields) == sorted(columns)
    assert {source["name"] for field in fields.values() for source in field["inputFields"]} <= {
        "book/df",
        "book/cell2/dataframe_getitem",
        "book/cell2/dataframe_getitem.2",
    }


def test_charts_of_one_cell_have_different_names(run_cells: Callable[..., Streams]) -> None:
    streams = run_cells(FRAME, AGG + "for _ in range(3):\n    plt.plot(df['a'])\nplt.plot(df['b'])")
    names = [
        output["name"]
        for event in streams["marimo_lineage_events"]
        if event["eventType"] == "COMPLETE"
        for output in event["outputs"]
        if output["namespace"] == "chart"
    ]
    assert names == ["book/cell2/matplotlib.plot", "book/cell2/matplotlib.plot#2"]


def test_a_consumer_without_columns_records_nothing(run_cells: Callable[..., Streams]) -> None:
    streams = run_cells(AGG + "plt.plot([1, 2, 3])")
    assert "marimo_dataframe_lineage" not in streams
