"""Tests of resolving typed dataset and column names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.index.changes import AssertionRow, ChangeSet, DatasetRow, EdgeRow, FacetsRow, JobRow
from clew.index.encoding import FacetEncoder, StoredFacet, entity_key
from clew.index.queries.lists import EntityFilter
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.query.model import DatasetName
from clew.query.names import find_column, full_name, resolve_dataset, resolve_name, short_name

FILES = ["/data/orders.csv", "/old/orders.csv", "/data/daily.v2.parquet", "/data/customers.csv", "s3/a:b"]
COLUMNS = {
    "/data/daily.v2.parquet": ["net.revenue", "day"],
    "/data/orders.csv": ["price"],
    "/old/orders.csv": ["price"],
}

OpenIndex = Callable[..., IndexReader]


@pytest.fixture
def open_index(tmp_path: Path) -> Iterator[OpenIndex]:
    readers = []

    def open_reader(changes: ChangeSet) -> IndexReader:
        with IndexWriter(tmp_path / "index") as writer:
            writer.apply("0", changes)
        readers.append(IndexReader(tmp_path / "index"))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.close()


def lineage_rows(columns_by_file: dict[str, list[str]]) -> tuple[list[AssertionRow], list[EdgeRow]]:
    """Return assertions and edges that derive each column of each file from the customers' id."""
    assertions = [
        AssertionRow("r", "file", name, "", "columnLineage", 1, 1, "r", None, None, None, name)
        for name in columns_by_file
    ]
    edges = [
        EdgeRow(name, position, column, "file", "/data/customers.csv", "id", "DIRECT", None, None, None)
        for name, columns in columns_by_file.items()
        for position, column in enumerate(columns)
    ]
    return assertions, edges


def schema_facets(dataset: str, *columns: str) -> FacetsRow:
    fields = ", ".join(f'{{"name": "{column}"}}' for column in columns)
    key = entity_key("file", dataset, None)
    facet = StoredFacet("schema", 1, 1, f'{{"fields": [{fields}]}}'.encode())
    return FacetsRow("dataset", key, 1, FacetEncoder().encode([facet]))


@pytest.fixture
def index(open_index: OpenIndex) -> IndexReader:
    return open_index(
        ChangeSet(
            datasets=[DatasetRow("file", name, 1, 1, 1, 1) for name in FILES]
            + [DatasetRow("marimo", name, 1, 1, 1, 1) for name in ("orders/df", "nb/orders")],
            lineage_assertions=lineage_rows(COLUMNS)[0],
            edge_sets=lineage_rows(COLUMNS)[1],
            facets=[schema_facets("/data/customers.csv", "name"), schema_facets("s3/a:b", "c")],
        )
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/data/orders.csv", "/data/orders.csv"),
        ("file:/data/orders.csv", "/data/orders.csv"),
        ("data/orders.csv", "/data/orders.csv"),
        ("customers.csv", "/data/customers.csv"),
        ("daily.v2.parquet", "/data/daily.v2.parquet"),
        ("df", "orders/df"),
        ("orders/df", "orders/df"),
    ],
)
def test_resolves_a_dataset(index: IndexReader, text: str, name: str) -> None:
    assert resolve_dataset(index, text).name == name


@pytest.mark.parametrize(
    ("text", "dataset", "column"),
    [
        ("daily.v2.parquet.day", "/data/daily.v2.parquet", "day"),
        ("daily.v2.parquet:day", "/data/daily.v2.parquet", "day"),
        ("daily.v2.parquet.net.revenue", "/data/daily.v2.parquet", "net.revenue"),
        ("/data/orders.csv.price", "/data/orders.csv", "price"),
        ("file:/data/orders.csv.price", "/data/orders.csv", "price"),
        # Known from its schema alone, and known as a source alone.
        ("customers.csv.name", "/data/customers.csv", "name"),
        ("customers.csv.id", "/data/customers.csv", "id"),
        ("a:b:c", "s3/a:b", "c"),
    ],
)
def test_resolves_a_column(index: IndexReader, text: str, dataset: str, column: str) -> None:
    assert find_column(index, text) == (DatasetName("file", dataset), column)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("custmers.csv.id", "no dataset 'custmers.csv'", "Did you mean customers.csv"),
        ("nothing.like.it", "no dataset 'nothing.like'", "Available: customers.csv, daily.v2.parquet, "),
        ("daily.v2.parquet.dya", "no column of daily.v2.parquet 'dya'", "Did you mean day?"),
        ("customers.csv.zzz", "no column of customers.csv 'zzz'", "Available: name, id."),
        (
            "orders.csv.price",
            "'orders.csv' matches 2 datasets: file:/data/orders.csv, file:/old/orders.csv",
            "Give more",
        ),
        ("customers.csv", "'customers.csv' is a dataset: append one of its columns", "Its columns: name, id."),
        ("price", "'price' is not a column", "DATASET.COLUMN"),
        (".price", "'.price' is not a column", "DATASET.COLUMN"),
        ("", "'' is not a column", "DATASET.COLUMN"),
        ("df.x", "no column of df 'x'", "its events have no schema"),
    ],
)
def test_rejects_an_unresolvable_column_with_a_hint(index: IndexReader, text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        find_column(index, text)
    assert message in error.value.message
    assert hint in (error.value.hint or "")
    assert error.value.exit_code == 2


def test_reports_an_empty_index(open_index: OpenIndex) -> None:
    with pytest.raises(UsageError, match=r"no dataset 'a'\.\nNothing was recorded yet: run `clew demo`"):
        find_column(open_index(ChangeSet()), "a.b")


def test_truncates_a_long_list_of_matches(open_index: OpenIndex) -> None:
    index = open_index(ChangeSet(datasets=[DatasetRow(f"n{number}", "t", 1, 1, 1, 1) for number in range(9)]))
    with pytest.raises(UsageError, match=r"'t' matches 9 datasets: n0:t, n1:t, n2:t, n3:t, n4:t and 4 more\."):
        resolve_dataset(index, "t")


@pytest.mark.parametrize(("name", "short"), [("/a/b.csv", "b.csv"), ("b", "b"), ("/a/b/", "b"), ("orders/df", "df")])
def test_short_and_full_names(name: str, short: str) -> None:
    assert short_name(DatasetName("n", name)) == short
    assert full_name(DatasetName("n", name)) == f"n:{name}"


@pytest.mark.parametrize(
    ("text", "name"),
    [("eda", "shop/analysis/eda"), ("analysis/eda.py", "shop/analysis/eda"), ("b/nb.ipynb", "work/b/nb")],
)
def test_resolves_a_notebook_by_the_end_of_its_name(open_index: OpenIndex, text: str, name: str) -> None:
    jobs = ["shop/analysis/eda", "work/a/nb", "work/b/nb"]
    cells = ["work/a/nb/eda", "work/a/nb/eda/pandas_merge"]
    rows = [JobRow("marimo", job, 1, 1, 1, 1, job_type="NOTEBOOK") for job in jobs]
    index = open_index(ChangeSet(jobs=rows + [JobRow("marimo", cell, 1, 1, 1, 1, job_type="CELL") for cell in cells]))
    assert resolve_name(index, text).name == name
    with pytest.raises(UsageError, match="matches 2 jobs"):
        resolve_name(index, "nb")
    operations = index.job_and_operations(("marimo", "work/a/nb"))
    assert operations == [("marimo", "work/a/nb"), ("marimo", "work/a/nb/eda/pandas_merge")]
    assert [
        row["name"] for row in index.entities("jobs", EntityFilter(with_operations=False), "last event", 10)
    ] == jobs
