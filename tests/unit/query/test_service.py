"""Tests of all query operations on a corpus of events from real producers."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.diff import diff_runs
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.runs import describe_job, describe_run
from clew.query.graph.nodes import Node
from clew.query.graph.view import ViewOptions
from clew.query.names import resolve_node_id
from clew.query.search import search_entities
from clew.query.search_index import split_identifier
from clew.query.service import LineageService


@pytest.fixture
def index(shared: Path, tmp_path: Path) -> Path:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = dict.fromkeys(line.strip() for file in files for line in file.read_bytes().splitlines())
    extractor = ChangeExtractor()
    for seq, body in enumerate(bodies):
        with suppress(RejectedError):
            extractor.add(decode_openlineage(body), event_id(body), seq)
    with IndexWriter(tmp_path / "index.sqlite") as writer:
        writer.apply("corpus/0", extractor.changes())
    return tmp_path / "index.sqlite"


def test_describes_and_traverses_every_job_and_dataset(index: Path) -> None:
    with QueryResources(index) as resources, resources.reader() as reader:
        service = LineageService(resources, reader)
        parent_count = len({parent for _, parent in reader.parent_jobs()})
        entities = [Node("dataset", *name) for name in reader.recent_names("dataset", 10_000)]
        entities += [Node("job", *name) for name in reader.recent_names("job", 10_000)]
        assert len(entities) > 100
        for entity in entities:
            assert resolve_node_id(reader, entity.id) == entity
            describe = describe_job if entity.kind == "job" else describe_dataset
            assert msgspec.json.encode(describe(reader, (entity.namespace, entity.name)))
            flat = service.traverse(entity.id)
            rolled_up = service.traverse(entity.id, view_options=ViewOptions(roll_up="root", include_frames=True))
            assert len(rolled_up.nodes) <= len(flat.nodes) + parent_count
            ids = {node.id for node in flat.nodes}
            assert all(edge.start in ids and edge.end in ids for edge in flat.edges)
            if entity.kind == "dataset":
                assert service.analyze_impact(entity.id).start == entity.id


def test_describes_traverses_and_diffs_every_run(index: Path) -> None:
    with QueryResources(index) as resources, resources.reader() as reader:
        runs = [row["run_uuid"] for row in reader.query("select run_uuid from all_runs")]
        for run, other in pairwise(runs):
            assert describe_run(reader, run).id == run
            assert LineageService(resources, reader).traverse(f"run:{run}").nodes[0].id == f"run:{run}"
            assert diff_runs(reader, run, other).left == run


def test_search_finds_every_dataset_by_name(index: Path) -> None:
    with QueryResources(index) as resources, resources.reader() as reader:
        for namespace, name in reader.recent_names("dataset", 10_000):
            if any(character.isalnum() for character in name):
                result = search_entities(
                    resources.search_index, reader, split_identifier(name), kind="dataset", limit=200
                )
                assert (namespace, name) in {(hit.namespace, hit.name) for hit in result.hits}


def test_impact_in_a_notebook_that_writes_no_file(notebook_events: Any) -> None:
    session = notebook_events.session(notebook="shop/eda")
    session.operation("load", "df@1", {"price": [("orders.csv", "price")]})
    session.operation("clean", "clean/dataframe_dropna@1", {"price": [("df@1", "price")]})
    session.operation("total", "totals@1", {"sum": [("clean/dataframe_dropna@1", "price", "AGGREGATION")]})
    with LineageService.open(notebook_events.index_events()) as service:
        impact = service.analyze_impact("orders.csv.price")
    assert (impact.affected, impact.direct, impact.indirect) == ((), 0, 0)
    assert [(affected.dataset.name, affected.dependency_type) for affected in impact.in_memory] == [
        ("shop/eda/df@1", "DIRECT"),
        ("shop/eda/totals@1", "DIRECT"),
    ]


@pytest.mark.parametrize("use_lazy_graphs", [True, False])
def test_impact_of_a_frame_starts_at_all_of_its_versions(notebook_events: Any, use_lazy_graphs: bool) -> None:
    session = notebook_events.session(notebook="shop/eda")
    session.operation("load", "df@1", {"price": [("orders.csv", "price")], "old": [("orders.csv", "old")]})
    session.operation("clean", "df@2", {"price": [("df@1", "price")], "total": [("df@1", "price")]})
    session.operation("copy", "copy@1", {"price": [("df@2", "price")]})
    session.operation("other", "other@1", {"old": [("df@1", "old")]})
    with QueryResources(notebook_events.index_events(), use_lazy_graphs=use_lazy_graphs) as resources:

        def affected(target: str) -> dict[str, tuple[str | None, ...]]:
            impact = LineageService(resources).analyze_impact(target)
            return {item.dataset.name: tuple(column.column for column in item.columns) for item in impact.in_memory}

        assert affected("df.price") == {"shop/eda/df@2": ("total",), "shop/eda/copy@1": ("price",)}
        assert affected("df.old") == {"shop/eda/other@1": ("old",)}
        assert affected("df") == {"shop/eda/copy@1": ("price",), "shop/eda/other@1": ("old",)}
