"""Tests of upstream lineage across symlinks and renames of a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.events.streams import decode_event
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.service import LineageService

PATH, TABLE = ("s3://lake", "orders"), ("hive://meta:9083", "shop.orders")


def column_lineage(**sources: tuple[str, str, str]) -> dict[str, Any]:
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


def run_event(minute: int, job: str, output: dict[str, Any]) -> dict[str, Any]:
    event = {"eventTime": f"2026-01-01T10:0{minute}:00Z", "eventType": "COMPLETE"}
    return {**event, "run": {"runId": job}, "job": {"namespace": "n", "name": job}, "outputs": [output]}


def symlink_event(minute: int, name: tuple[str, str], other: tuple[str, str]) -> dict[str, Any]:
    identifiers = {"identifiers": [{"namespace": other[0], "name": other[1], "type": "TABLE"}]}
    return {"eventTime": f"2026-01-01T10:0{minute}:00Z", "dataset": dataset(name, symlinks=identifiers)}


WRITE = run_event(1, "write", dataset(PATH, **column_lineage(total=("db", "raw", "price"))))
VERSIONED = run_event(
    1, "write", dataset(PATH, version={"datasetVersion": "7"}, **column_lineage(total=("db", "raw", "price")))
)
READ = run_event(2, "read", dataset(("db", "report"), **column_lineage(sum=(*TABLE, "total"))))
LINK = symlink_event(3, PATH, TABLE)


def build_index(path: Path, events: list[dict[str, Any]]) -> Path:
    extractor = ChangeExtractor()
    for seq, event in enumerate(events):
        extractor.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
    with IndexWriter(path) as writer:
        writer.apply("test/0", extractor.changes())
    return path


@pytest.mark.parametrize(
    "events",
    [[WRITE, READ, LINK], [LINK, WRITE, READ], [READ, LINK, WRITE], [VERSIONED, READ, LINK]],
    ids=["symlink-last", "symlink-first", "symlink-between", "with-version"],
)
def test_traversal_crosses_symlinks_in_any_event_order(
    events: list[dict[str, Any]], tmp_path: Path, format_lineage: Any
) -> None:
    with LineageService.open(build_index(tmp_path / "index", events)) as service:
        assert [line.strip().split()[0] for line in format_lineage(service.trace_column("report.sum"))] == [
            "report.sum",
            "shop.orders.total",
            "raw.price",
        ]


def test_traversal_ends_without_the_symlink(tmp_path: Path, format_lineage: Any) -> None:
    with LineageService.open(build_index(tmp_path / "index", [WRITE, READ])) as service:
        assert len(format_lineage(service.trace_column("report.sum"))) == 2


@pytest.mark.parametrize("name", ["orders.total", "shop.orders.total", "hive://meta:9083:shop.orders:total"])
def test_finds_a_dataset_by_any_of_its_names(name: str, tmp_path: Path, format_lineage: Any) -> None:
    with LineageService.open(build_index(tmp_path / "index", [WRITE, LINK])) as service:
        assert format_lineage(service.trace_column(name))[1].strip().startswith("raw.price")


def test_traversal_continues_under_the_name_before_a_rename(tmp_path: Path, format_lineage: Any) -> None:
    change = {"lifecycleStateChange": "RENAME", "previousIdentifier": {"namespace": PATH[0], "name": PATH[1]}}
    rename = {"eventTime": "2026-01-01T10:02:00Z", "dataset": dataset(TABLE, lifecycleStateChange=change)}
    read = run_event(3, "read", dataset(("db", "report"), **column_lineage(sum=(*TABLE, "total"))))
    with LineageService.open(build_index(tmp_path / "index", [WRITE, rename, read])) as service:
        names = [line.strip().split()[0] for line in format_lineage(service.trace_column("report.sum"))]
        assert names == ["report.sum", "shop.orders.total", "raw.price"]
        # No job wrote this column under the new name.
        assert [line.split()[0] for line in format_lineage(service.trace_column("shop.orders.total"))][
            -1
        ].strip() == "raw.price"
