"""Every question is asked of everything that real producers wrote: each has an answer, and they agree."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from clew.events.identity import event_id
from clew.events.openlineage import decode
from clew.index.observer import Observer
from clew.index.sink import IndexSink
from clew.query.diff import run_diff
from clew.query.documents import dataset_document, job_document, run_document
from clew.query.graph.lens import Sight
from clew.query.graph.nodes import Node
from clew.query.holdings import Holdings
from clew.query.lineage import impact, lineage
from clew.query.node_ids import find_node
from clew.query.search.hits import search
from clew.query.search.texts import in_words


@pytest.fixture
def index(shared: Path, tmp_path: Path) -> Path:
    files = sorted((shared / "corpus").rglob("*.jsonl"))
    bodies = dict.fromkeys(line.strip() for file in files for line in file.read_bytes().splitlines())
    observer = Observer()
    for seq, body in enumerate(bodies):
        observer.note(decode(body), event_id(body), seq)
    with IndexSink(tmp_path / "index.sqlite") as sink:
        sink.apply("corpus/0", observer.changes())
    return tmp_path / "index.sqlite"


def test_every_job_and_dataset_has_its_documents_and_its_lineage(index: Path) -> None:
    with Holdings(index) as holdings, holdings.reader() as reader:
        graph = holdings.lineage(reader)[1]
        named = [Node("dataset", *name) for name in reader.some_datasets(10_000)]
        named += [Node("job", *name) for name in reader.some_jobs(10_000)]
        assert len(named) > 100
        for node in named:
            assert find_node(reader, node.id) == node
            document = job_document if node.kind == "job" else dataset_document
            assert msgspec.json.encode(document(reader, node.namespace, node.name))
            plain = lineage(holdings, reader, node.id)
            rolled = lineage(holdings, reader, node.id, sight=Sight(roll_up="root", has_frames=True))
            assert len(rolled.nodes) <= len(plain.nodes) + len(graph.children())
            ids = {one.id for one in plain.nodes}
            assert all(edge.start in ids and edge.end in ids for edge in plain.edges)
            if node.kind == "dataset":
                assert impact(holdings, reader, node.id).start == node.id


def test_every_run_has_its_document_and_its_lineage_and_differs_from_the_next(index: Path) -> None:
    with Holdings(index) as holdings, holdings.reader() as reader:
        runs = [row["run_uuid"] for row in reader.ask("select run_uuid from all_runs")]
        for run, other in pairwise(runs):
            assert run_document(reader, run).id == run
            assert lineage(holdings, reader, f"run:{run}").nodes[0].id == f"run:{run}"
            assert run_diff(reader, run, other).left == run


def test_everything_is_found_by_its_name(index: Path) -> None:
    with Holdings(index) as holdings, holdings.reader() as reader:
        for namespace, name in reader.some_datasets(10_000):
            if any(character.isalnum() for character in name):
                hits = search(holdings.search_file, reader, in_words(name), kind="dataset", limit=200)
                assert (namespace, name) in {(hit.namespace, hit.name) for hit in hits.hits}
