"""From what a person types to what is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.index.changes import AssertionRow, ChangeSet, DatasetRow, EdgeRow, FacetsRow
from clew.index.encoding import FacetEncoder, StoredFacet, entity_key
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.query.model import DatasetName
from clew.query.names import find_column, full_name, resolve_dataset, short_name

FILES = ["/data/orders.csv", "/old/orders.csv", "/data/daily.v2.parquet", "/data/customers.csv", "s3/a:b"]
COLUMNS = {
    "/data/daily.v2.parquet": ["net.revenue", "day"],
    "/data/orders.csv": ["price"],
    "/old/orders.csv": ["price"],
}

Open = Callable[..., IndexReader]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    readers = []

    def make(changes: ChangeSet) -> IndexReader:
        with IndexWriter(tmp_path / "index") as sink:
            sink.apply("0", changes)
        readers.append(IndexReader(tmp_path / "index"))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


def stated(found: dict[str, list[str]]) -> tuple[list[AssertionRow], list[EdgeRow]]:
    """Of each column of each file that it was made from the customers' id."""
    statements = [
        AssertionRow("r", "file", name, "", "columnLineage", 1, 1, "r", None, None, None, name) for name in found
    ]
    edges = [
        EdgeRow(name, place, column, "file", "/data/customers.csv", "id", "DIRECT", None, None, None)
        for name, columns in found.items()
        for place, column in enumerate(columns)
    ]
    return statements, edges


def schema(dataset: str, *columns: str) -> FacetsRow:
    fields = ", ".join(f'{{"name": "{column}"}}' for column in columns)
    key = entity_key("file", dataset, None)
    facet = StoredFacet("schema", 1, 1, f'{{"fields": [{fields}]}}'.encode())
    return FacetsRow("dataset", key, 1, FacetEncoder().encode([facet]))


@pytest.fixture
def index(opened: Open) -> IndexReader:
    return opened(
        ChangeSet(
            datasets=[DatasetRow("file", name, 1, 1, 1, 1) for name in FILES]
            + [DatasetRow("marimo", name, 1, 1, 1, 1) for name in ("orders/df", "nb/orders")],
            lineage_assertions=stated(COLUMNS)[0],
            edge_sets=stated(COLUMNS)[1],
            facets=[schema("/data/customers.csv", "name"), schema("s3/a:b", "c")],
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
def test_a_dataset_is_found(index: IndexReader, text: str, name: str) -> None:
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
def test_a_column_is_found(index: IndexReader, text: str, dataset: str, column: str) -> None:
    assert find_column(index, text) == (DatasetName("file", dataset), column)


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
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
        ("df.x", "no column of df 'x'", "Nothing was recorded yet"),
    ],
)
def test_what_is_not_found_is_answered_with_a_way_on(index: IndexReader, text: str, sentence: str, hint: str) -> None:
    with pytest.raises(UsageError) as fault:
        find_column(index, text)
    assert sentence in fault.value.message
    assert hint in (fault.value.hint or "")
    assert fault.value.exit_code == 2


def test_an_empty_index_says_so(opened: Open) -> None:
    with pytest.raises(UsageError, match=r"no dataset 'a'\.\nNothing was recorded yet: run `clew demo`"):
        find_column(opened(ChangeSet()), "a.b")


def test_long_lists_are_cut_and_counted(opened: Open) -> None:
    index = opened(ChangeSet(datasets=[DatasetRow(f"n{number}", "t", 1, 1, 1, 1) for number in range(9)]))
    with pytest.raises(UsageError, match=r"'t' matches 9 datasets: n0:t, n1:t, n2:t, n3:t, n4:t and 4 more\."):
        resolve_dataset(index, "t")


@pytest.mark.parametrize(("name", "short"), [("/a/b.csv", "b.csv"), ("b", "b"), ("/a/b/", "b"), ("orders/df", "df")])
def test_names_long_and_short(name: str, short: str) -> None:
    assert short_name(DatasetName("n", name)) == short
    assert full_name(DatasetName("n", name)) == f"n:{name}"
