"""A dataset that has several names is one: a column written under one and read under another is one thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.service import NotebookService

PATH, TABLE = ("s3://lake", "orders"), ("hive://meta:9083", "shop.orders")


def columns(**sources: tuple[str, str, str]) -> dict[str, Any]:
    return {
        "columnLineage": {
            "fields": {
                column: {"inputFields": [{"namespace": namespace, "name": name, "field": field}]}
                for column, (namespace, name, field) in sources.items()
            }
        }
    }


def dataset(name: tuple[str, str], **facets: Any) -> dict[str, Any]:
    return {"namespace": name[0], "name": name[1], "facets": facets}


def written(minute: int, job: str, output: dict[str, Any]) -> dict[str, Any]:
    moment = {"eventTime": f"2026-01-01T10:0{minute}:00Z", "eventType": "COMPLETE"}
    return {**moment, "run": {"runId": job}, "job": {"namespace": "n", "name": job}, "outputs": [output]}


def symlinked(minute: int, bearer: tuple[str, str], other: tuple[str, str]) -> dict[str, Any]:
    identifiers = {"identifiers": [{"namespace": other[0], "name": other[1], "type": "TABLE"}]}
    return {"eventTime": f"2026-01-01T10:0{minute}:00Z", "dataset": dataset(bearer, symlinks=identifiers)}


WRITE = written(1, "write", dataset(PATH, **columns(total=("db", "raw", "price"))))
VERSIONED = written(1, "write", dataset(PATH, version={"datasetVersion": "7"}, **columns(total=("db", "raw", "price"))))
READ = written(2, "read", dataset(("db", "report"), **columns(sum=(*TABLE, "total"))))
LINK = symlinked(3, PATH, TABLE)


def index_of(path: Path, log: list[dict[str, Any]]) -> Path:
    observer = ChangeExtractor()
    for seq, event in enumerate(log):
        observer.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(path) as sink:
        sink.apply("test/0", observer.changes())
    return path


@pytest.mark.parametrize(
    "log",
    [[WRITE, READ, LINK], [LINK, WRITE, READ], [READ, LINK, WRITE], [VERSIONED, READ, LINK]],
    ids=["at last", "at first", "in between", "a version"],
)
def test_a_walk_crosses_symlinks_whenever_they_came(log: list[dict[str, Any]], tmp_path: Path, lines_of: Any) -> None:
    with NotebookService(index_of(tmp_path / "index", log)) as answers:
        assert [line.strip().split()[0] for line in lines_of(answers.upstream("report.sum"))] == [
            "report.sum",
            "shop.orders.total",
            "raw.price",
        ]


def test_without_the_symlink_the_thread_ends(tmp_path: Path, lines_of: Any) -> None:
    with NotebookService(index_of(tmp_path / "index", [WRITE, READ])) as answers:
        assert len(lines_of(answers.upstream("report.sum"))) == 2


@pytest.mark.parametrize("name", ["orders.total", "shop.orders.total", "hive://meta:9083:shop.orders:total"])
def test_a_dataset_is_found_by_any_of_its_names(name: str, tmp_path: Path, lines_of: Any) -> None:
    with NotebookService(index_of(tmp_path / "index", [WRITE, LINK])) as answers:
        assert lines_of(answers.upstream(name))[1].strip().startswith("raw.price")


def test_a_walk_goes_on_under_the_name_before_a_dataset_was_renamed(tmp_path: Path, lines_of: Any) -> None:
    change = {"lifecycleStateChange": "RENAME", "previousIdentifier": {"namespace": PATH[0], "name": PATH[1]}}
    rename = {"eventTime": "2026-01-01T10:02:00Z", "dataset": dataset(TABLE, lifecycleStateChange=change)}
    read = written(3, "read", dataset(("db", "report"), **columns(sum=(*TABLE, "total"))))
    with NotebookService(index_of(tmp_path / "index", [WRITE, rename, read])) as answers:
        found = [line.strip().split()[0] for line in lines_of(answers.upstream("report.sum"))]
        assert found == ["report.sum", "shop.orders.total", "raw.price"]
        # Nobody wrote this column under the new name.
        assert [line.split()[0] for line in lines_of(answers.upstream("shop.orders.total"))][-1].strip() == "raw.price"
