"""Every question is asked of everything that real producers wrote: each has an answer, and they agree."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from clew.events.ids import event_id
from clew.events.openlineage import decode_openlineage
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.diff import diff_runs
from clew.query.entities.facets import describe_dataset, describe_job, describe_run
from clew.query.graph.nodes import Node
from clew.query.graph.view import ViewOptions
from clew.query.lineage import analyze_impact, traverse_lineage
from clew.query.names import resolve_node_id
from clew.query.search import search_entities
from clew.query.search_index import split_identifier


@pytest.fixture
def index(shared: Path, tmp_path: Path) -> Path:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = dict.fromkeys(line.strip() for file in files for line in file.read_bytes().splitlines())
    observer = ChangeExtractor()
    for seq, body in enumerate(bodies):
        observer.add(decode_openlineage(body), event_id(body), seq)
    with IndexWriter(tmp_path / "index.sqlite") as sink:
        sink.apply("corpus/0", observer.changes())
    return tmp_path / "index.sqlite"


def test_every_job_and_dataset_has_its_documents_and_its_lineage(index: Path) -> None:
    with QueryResources(index) as holdings, holdings.reader() as reader:
        graph = holdings.get_job_graph(reader)[1]
        named = [Node("dataset", *name) for name in reader.recent_datasets(10_000)]
        named += [Node("job", *name) for name in reader.recent_jobs(10_000)]
        assert len(named) > 100
        for node in named:
            assert resolve_node_id(reader, node.id) == node
            document = describe_job if node.kind == "job" else describe_dataset
            assert msgspec.json.encode(document(reader, node.namespace, node.name))
            plain = traverse_lineage(holdings, reader, node.id)
            rolled = traverse_lineage(
                holdings, reader, node.id, view_options=ViewOptions(roll_up="root", include_frames=True)
            )
            assert len(rolled.nodes) <= len(plain.nodes) + len(graph.children())
            ids = {one.id for one in plain.nodes}
            assert all(edge.start in ids and edge.end in ids for edge in plain.edges)
            if node.kind == "dataset":
                assert analyze_impact(holdings, reader, node.id).start == node.id


def test_every_run_has_its_document_and_its_lineage_and_differs_from_the_next(index: Path) -> None:
    with QueryResources(index) as holdings, holdings.reader() as reader:
        runs = [row["run_uuid"] for row in reader.query("select run_uuid from all_runs")]
        for run, other in pairwise(runs):
            assert describe_run(reader, run).id == run
            assert traverse_lineage(holdings, reader, f"run:{run}").nodes[0].id == f"run:{run}"
            assert diff_runs(reader, run, other).left == run


def test_everything_is_found_by_its_name(index: Path) -> None:
    with QueryResources(index) as holdings, holdings.reader() as reader:
        for namespace, name in reader.recent_datasets(10_000):
            if any(character.isalnum() for character in name):
                hits = search_entities(holdings.search_index, reader, split_identifier(name), kind="dataset", limit=200)
                assert (namespace, name) in {(hit.namespace, hit.name) for hit in hits.hits}
