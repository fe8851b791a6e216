"""Tests of dataset names of files and tables."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path

import pytest

from clew.capture.lineage.datasets import ExternalDataset, dataset_at, table_dataset


@pytest.mark.parametrize(
    ("target", "namespace", "name"),
    [
        ("/data/in.csv", "file", "/data/in.csv"),
        (Path("/data/in.csv"), "file", "/data/in.csv"),
        ("file:///data/in.csv", "file", "/data/in.csv"),
        ("s3://bucket/a/b.parquet", "s3://bucket", "a/b.parquet"),
        ("s3a://bucket/a/b.parquet", "s3://bucket", "a/b.parquet"),
        ("gcs://bucket/k", "gs://bucket", "k"),
        ("https://user:pw@example.org/x.csv?sig=1", "https://example.org", "/x.csv"),
    ],
)
def test_names_follow_openlineage(target: str | Path, namespace: str, name: str) -> None:
    assert dataset_at(target) == (namespace, name)


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dataset_at("in.csv") == ("file", str(tmp_path / "in.csv"))


def test_open_file_has_its_path_and_a_buffer_has_none(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a\n1\n")
    with path.open() as file:
        assert dataset_at(file) == ("file", str(path))
    assert dataset_at(io.StringIO("a")) is None


@pytest.mark.parametrize(
    ("connection", "namespace", "name"),
    [
        ("postgresql+psycopg://u:p@db/shop", "postgres://db:5432", "shop.public.orders"),
        ("mssql+pyodbc://db/shop", "mssql://db:1433", "shop.dbo.orders"),
        ("mysql://db:3307/shop", "mysql://db:3307", "shop.orders"),
    ],
)
def test_tables_are_named_by_their_server(connection: str, namespace: str, name: str) -> None:
    assert table_dataset(connection, "orders") == (namespace, name)


def test_table_name_includes_the_schema() -> None:
    assert table_dataset("postgresql://db/shop", "sales.orders") == ("postgres://db:5432", "shop.sales.orders")


@pytest.mark.parametrize(
    ("dataset", "uri"),
    [
        (ExternalDataset("file", "/data/Ann & Bob 100%.csv"), "file:///data/Ann%20&%20Bob%20100%25.csv"),
        (ExternalDataset("s3://bucket", "a/b é.parquet"), "s3://bucket/a/b%20%C3%A9.parquet"),
        (ExternalDataset("", "sqlite::memory:.orders"), "memory:sqlite::memory:.orders"),
    ],
)
def test_uri_is_percent_encoded(dataset: ExternalDataset, uri: str) -> None:
    assert dataset.uri == uri


def test_sqlite_table_name_includes_the_file(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    for table in ("orders", "main.orders"):
        assert table_dataset(connection, table) == ("sqlite", f"{tmp_path / 'shop.db'}.orders")
    connection.close()


def test_databases_in_memory_have_numbers_and_no_namespace() -> None:
    first, second = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    names = [table_dataset(connection, "orders") for connection in (first, second, first)]
    assert names[0] == names[2] != names[1]
    assert {name.namespace for name in names} == {""}
    first.close()
    second.close()


def test_other_drivers_are_not_asked() -> None:
    class Connection:
        def execute(self, text: str) -> None:
            raise AssertionError(text)

    assert table_dataset(Connection(), "orders").name == "orders"
