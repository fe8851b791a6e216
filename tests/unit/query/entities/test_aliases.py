"""Tests of the former addresses of jobs and versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.data_dir import DatabaseUrl
from clew.query.entities.aliases import AliasStore, JobAlias, VersionAlias

VERSION = VersionAlias("ab-1", "db", "orders", "run-1")


def test_without_a_file_there_are_no_aliases(tmp_path: Path) -> None:
    store = AliasStore(tmp_path / "index.sqlite")
    assert store.find_job("ns", "dag.task") is None
    assert store.find_version("ab-1") is None
    assert store.find_node_id("job:ns:dag.task") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["data", "50% #1?"])
def test_finds_what_was_written(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    store = AliasStore(tmp_path / folder / "index.sqlite")
    assert store.write([JobAlias("ns:1", "dag.task", "task")], [VERSION]) == 2
    # An import that is repeated replaces what it wrote.
    assert store.write([JobAlias("ns:1", "dag.task", "task2")], iter([VERSION])) == 2
    assert store.find_job("ns:1", "dag.task") == "task2"
    assert store.find_job("ns", "dag.task") is None
    assert store.find_node_id("job:ns:1:dag.task") == "job:ns:1:task2"
    assert store.find_node_id("job:ns:dag.task") is None
    assert store.find_node_id("dataset:ns:1:dag.task") is None
    assert store.find_version("AB-1") == VERSION
    # The file is beside the files of an index in PostgreSQL, too.
    assert AliasStore(DatabaseUrl("postgresql://host/db", tmp_path / folder)).find_version("ab-1") == VERSION


def test_aliases_of_erased_entities_are_deleted(tmp_path: Path) -> None:
    store = AliasStore(tmp_path / "index.sqlite")
    assert store.erase(lambda *_: True) == 0, "there is no file"
    store.write([JobAlias("hr", "a", "b"), JobAlias("n", "a", "b")], [VersionAlias("v1", "hr", "d", "r")])
    assert store.erase(lambda namespace, _: namespace == "hr") == 2
    assert store.find_job("hr", "a") is None
    assert store.find_job("n", "a") == "b"
