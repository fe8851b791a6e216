"""Lineage in the index: explicit and by columns, replaced and implied, under several names, whatever the order."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.events.streams import decode_event
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor
from clew.index.writer import IndexWriter

TABLES = (
    "datasets",
    "dataset_states",
    "renames",
    "symlinks",
    "dataset_aliases",
    "run_io",
    "job_edges",
    "job_dependencies",
    "lineage_assertions",
    "column_edges",
)

names = st.sampled_from(["a", "b", "c"])
datasets = names.map(lambda name: {"namespace": "n", "name": name})
sources = datasets.map(lambda dataset: {"type": "DATASET", **dataset}) | st.sampled_from(
    [{"type": "JOB"}, {"type": "JOB", "namespace": "n", "name": "other"}]
)
explicit = st.fixed_dictionaries({"inputs": st.lists(sources, max_size=2)})
entries = st.builds(lambda target, said: {**target, **said}, sources, explicit)
columns = datasets.map(lambda source: {"fields": {"x": {"inputFields": [{**source, "field": "y"}]}}})
symlinks = st.lists(datasets, max_size=2).map(lambda found: {"identifiers": found})
changes = st.builds(
    lambda state, before: {"lifecycleStateChange": state, "previousIdentifier": before},
    st.sampled_from(["CREATE", "DROP", "RENAME"]),
    datasets,
)
deleted = st.just({"_deleted": True})
facets = st.fixed_dictionaries(
    {},
    optional={
        "columnLineage": columns | deleted,
        "lineage": explicit | deleted,
        "symlinks": symlinks | deleted,
        "lifecycleStateChange": changes | deleted,
    },
)
described = st.builds(lambda dataset, found: {**dataset, "facets": found}, datasets, facets)
job_facets = st.fixed_dictionaries(
    {}, optional={"lineage": st.lists(entries, max_size=2).map(lambda found: {"entries": found}) | deleted}
)
jobs = st.builds(lambda found: {"namespace": "n", "name": "own", "facets": found}, job_facets)
times = st.integers(0, 3).map(lambda minute: {"eventTime": f"2026-01-01T10:0{minute}:00Z"})
events = st.one_of(
    st.builds(
        lambda time, run, job, inputs, outputs: {
            **time,
            "run": {"runId": run},
            "job": job,
            "inputs": inputs,
            "outputs": outputs,
        },
        times,
        st.sampled_from(["r", "s"]),
        jobs,
        st.lists(described, max_size=2),
        st.lists(described, max_size=2),
    ),
    st.builds(
        lambda time, job, inputs, outputs: {**time, "job": job, "inputs": inputs, "outputs": outputs},
        times,
        jobs,
        st.lists(datasets, max_size=1),
        st.lists(described, max_size=1),
    ),
    st.builds(lambda time, dataset: {**time, "dataset": dataset}, times, described),
)


def observed(numbered: list[tuple[int, dict[str, Any]]]) -> ChangeSet:
    observer = ChangeExtractor()
    for seq, event in numbered:
        observer.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
    return observer.changes()


def rows(path: Path, batches: list[list[tuple[int, dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    """All that a new index says of lineage after the batches."""
    path.unlink(missing_ok=True)
    with IndexWriter(path) as sink:
        # Thousands of small transactions, none of which has to survive.
        sink._database.execute("pragma synchronous = off")
        sink._database.execute("pragma journal_mode = memory")
        for number, batch in enumerate(batches):
            sink.apply(f"test/{number}", observed(batch))
        return {table: table_rows(sink, table) for table in TABLES}


def table_rows(sink: IndexWriter, table: str) -> list[dict[str, Any]]:
    cursor = sink._database.execute(f"select * from {table}")
    names = [column[0] for column in cursor.description or ()]
    return sorted((dict(zip(names, row, strict=True)) for row in cursor), key=str)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(log=st.lists(events, min_size=1, max_size=5), data=st.data())
def test_order_and_size_of_batches_do_not_matter(
    log: list[dict[str, Any]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "lineage.sqlite"
    numbered = list(enumerate(log))
    whole = rows(path, [numbered])
    single = [[event] for event in numbered]
    assert rows(path, data.draw(st.permutations(single))) == whole
    assert rows(path, [*data.draw(st.permutations(single)), numbered]) == whole


def dataset(name: str, **found: Any) -> dict[str, Any]:
    return {"namespace": "n", "name": name, "facets": found}


def run(minute: int = 0, *, job: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    own = {"namespace": "n", "name": "own", "facets": job or {}}
    return {"eventTime": f"2026-01-01T10:{minute:02}:00Z", "run": {"runId": "r"}, "job": own, **parts}


def declared(minute: int = 0, **parts: Any) -> dict[str, Any]:
    event = run(minute, **parts)
    del event["run"]
    return event


def told(minute: int, name: str, **found: Any) -> dict[str, Any]:
    return {"eventTime": f"2026-01-01T10:{minute:02}:00Z", "dataset": dataset(name, **found)}


def change(state: str, before: str | None = None) -> dict[str, Any]:
    previous = {} if before is None else {"previousIdentifier": {"namespace": "n", "name": before}}
    return {"lifecycleStateChange": state, **previous}


def in_every_order(path: Path, log: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    numbered = list(enumerate(log))
    found = rows(path, [numbered])
    for order in permutations([[event] for event in numbered]):
        assert rows(path, list(order)) == found
    return found


@pytest.mark.parametrize(
    ("log", "deleted"),
    [
        ([told(0, "a")], set()),
        ([told(0, "a", lifecycleStateChange=change("DROP"))], {"a"}),
        ([run(0, outputs=[dataset("a", lifecycleStateChange=change("DROP"))])], {"a"}),
        ([run(0, outputs=[dataset("a", lifecycleStateChange=change("DROP"))]), run(1, inputs=[dataset("a")])], {"a"}),
        ([told(1, "a", lifecycleStateChange=change("DROP")), run(2, outputs=[dataset("a")])], set()),
        ([told(1, "a", lifecycleStateChange=change("DROP")), run(0, outputs=[dataset("a")])], {"a"}),
        (
            [told(1, "a", lifecycleStateChange=change("DROP")), told(2, "a", lifecycleStateChange=change("CREATE"))],
            set(),
        ),
        ([told(0, "a", lifecycleStateChange=change("TRUNCATE"))], set()),
        ([told(0, "a"), told(1, "b", lifecycleStateChange=change("RENAME", "a"))], {"a"}),
        (
            [
                run(0, outputs=[dataset("a")]),
                told(1, "b", lifecycleStateChange=change("RENAME", "a")),
                run(2, outputs=[dataset("a")]),
            ],
            set(),
        ),
        ([told(0, "a", lifecycleStateChange=change("RENAME", "a"))], set()),
        ([told(1, "a", lifecycleStateChange=change("DROP")), told(2, "a", lifecycleStateChange=None)], {"a"}),
    ],
)
def test_what_is_dropped_or_renamed_is_gone_until_it_is_written(
    log: list[dict[str, Any]], deleted: set[str], tmp_path: Path
) -> None:
    found = in_every_order(tmp_path / "index", log)
    assert {row["name"] for row in found["dataset_states"] if row["is_deleted"]} == deleted


def test_a_rename_is_remembered_and_makes_no_ghost(tmp_path: Path) -> None:
    (row,) = in_every_order(tmp_path / "index", [told(1, "b", lifecycleStateChange=change("RENAME", "a"))])["datasets"]
    assert (row["name"], row["renamed_from_name"], row["lifecycle_state"]) == ("b", "a", "RENAME")


def links(*others: str) -> dict[str, Any]:
    return {"identifiers": [{"namespace": "n", "name": other, "type": "TABLE"} for other in others]}


@pytest.mark.parametrize(
    ("log", "nodes"),
    [
        ([told(0, "a")], {}),
        ([told(0, "b", symlinks=links("a")), told(1, "a")], {"a": "b", "b": "b"}),
        (
            [run(0, inputs=[dataset("c", symlinks=links("b"))]), told(1, "b", symlinks=links("a"))],
            dict.fromkeys("abc", "b"),
        ),
        ([told(0, "b", symlinks=links("a")), told(1, "b", symlinks={"_deleted": True})], {}),
        ([told(0, "b", symlinks=links("a")), told(1, "b", symlinks=links("c"))], {"b": "b", "c": "b"}),
        ([told(0, "b", symlinks=links("a")), told(1, "b")], {"a": "b", "b": "b"}),
        ([told(0, "b", symlinks=links("b"))], {}),
    ],
)
def test_nodes_follow_the_last_symlinks(log: list[dict[str, Any]], nodes: dict[str, str], tmp_path: Path) -> None:
    found = in_every_order(tmp_path / "index", log)
    assert {row["name"]: row["canonical_name"] for row in found["dataset_aliases"]} == nodes
    # A name that only a symlink knows is no dataset.
    named = {part["name"] for event in log for part in [event.get("dataset"), *event.get("inputs", ())] if part}
    assert {row["name"] for row in found["datasets"]} == named


def by_columns(source: str) -> dict[str, Any]:
    return {"fields": {"x": {"inputFields": [{"namespace": "n", "name": source, "field": "y"}]}}}


def entry(target: str, *found: str) -> dict[str, Any]:
    inputs = [{"type": "DATASET", "namespace": "n", "name": name} for name in found]
    return {"type": "DATASET", "namespace": "n", "name": target, "inputs": inputs}


def lineage(*found: dict[str, Any]) -> dict[str, Any]:
    return {"lineage": {"entries": list(found)}}


OUT = [dataset("out", columnLineage=by_columns("a"))]
A = {**dataset("a"), "type": "DATASET"}
WRITTEN, WRITES = ("OUTPUT", "out", 0), ("own", "OUTPUT", "out", 0)


@pytest.mark.parametrize(
    ("log", "edges"),
    [
        ([run(outputs=OUT)], {("out", "a")}),
        # Explicit lineage goes before column lineage, in whichever event of the run it stands.
        ([run(job=lineage(entry("out", "b")), outputs=OUT)], {("out", "b")}),
        ([run(job=lineage(entry("out", "b"))), run(outputs=OUT)], {("out", "b")}),
        ([run(job=lineage(entry("other", "b"))), run(outputs=OUT)], {("out", "a"), ("other", "b")}),
        # Of a run, entries add up by target; the later one of a target replaces the earlier.
        ([run(job=lineage(entry("c", "a"))), run(job=lineage(entry("d", "b")))], {("c", "a"), ("d", "b")}),
        ([run(job=lineage(entry("c", "a"))), run(job=lineage(entry("c", "b")))], {("c", "b")}),
        ([run(job=lineage(entry("out")), outputs=OUT)], set()),
        # Without a run, the later facet is all there is.
        ([declared(job=lineage(entry("c", "a"))), declared(job=lineage(entry("d", "b")))], {("d", "b")}),
        ([declared(job=lineage(entry("c", "a"))), declared(job=lineage())], set()),
        ([declared(job=lineage(entry("c", "a"))), declared(job={"lineage": {"_deleted": True}})], set()),
        ([declared(job=lineage(entry("c", "a"))), declared()], {("c", "a")}),
        ([declared(job=lineage(entry("c", "a"))), run(job=lineage(entry("d", "b")))], {("c", "a"), ("d", "b")}),
        ([told(0, "c", lineage=entry("", "a")), told(1, "c", lineage=entry("", "b"))], {("c", "b")}),
        ([told(0, "c", lineage=entry("", "a")), told(1, "c", lineage={})], set()),
        ([told(0, "c", columnLineage=by_columns("a"))], {("c", "a")}),
        # What is taken back leaves the other facet's statement.
        ([run(outputs=[dataset("out", columnLineage={"_deleted": True})]), run(outputs=OUT)], {("out", "a")}),
        ([run(outputs=OUT), run(outputs=[dataset("out", columnLineage={"_deleted": True})])], set()),
    ],
)
def test_the_statement_that_counts(log: list[dict[str, Any]], edges: set[tuple[str, str]], tmp_path: Path) -> None:
    found = in_every_order(tmp_path / "index", log)
    assert {(row["dataset_name"], row["source_name"]) for row in found["column_edges"]} == edges


def test_explicit_lineage_is_of_the_version_that_the_run_wrote(tmp_path: Path) -> None:
    versioned = dataset("out", version={"datasetVersion": "8"})
    found = in_every_order(tmp_path / "index", [run(job=lineage(entry("out", "a"))), run(outputs=[versioned])])
    assert [row["dataset_version"] for row in found["column_edges"]] == ["8"]


@pytest.mark.parametrize(
    ("log", "io", "edges"),
    [
        ([run(outputs=OUT)], {("INPUT", "a", 1), WRITTEN}, {("own", "INPUT", "a", 1), WRITES}),
        ([run(outputs=OUT, inputs=[A])], {("INPUT", "a", 0), WRITTEN}, {("own", "INPUT", "a", 0), WRITES}),
        ([run(outputs=OUT), run(inputs=[A])], {("INPUT", "a", 0), WRITTEN}, {("own", "INPUT", "a", 0), WRITES}),
        ([declared(outputs=OUT)], set(), {("own", "INPUT", "a", 1), WRITES}),
        ([told(0, "c", lineage=entry("", "a"))], set(), set()),
        (
            [run(job=lineage({"type": "JOB", "namespace": "n", "name": "j", "inputs": [A]}))],
            set(),
            {("j", "INPUT", "a", 1)},
        ),
        (
            [run(job=lineage({"type": "JOB", "inputs": [A]}))],
            {("INPUT", "a", 1)},
            {("own", "INPUT", "a", 1)},
        ),
        (
            [run(job=lineage({**entry("c"), "inputs": [{"type": "JOB", "namespace": "n", "name": "j"}]}))],
            set(),
            {("j", "OUTPUT", "c", 1)},
        ),
    ],
)
def test_what_lineage_implies(
    log: list[dict[str, Any]], io: set[tuple[str, str, int]], edges: set[tuple[str, str, str, int]], tmp_path: Path
) -> None:
    found = in_every_order(tmp_path / "index", log)
    assert {(row["direction"], row["dataset_name"], row["is_implied"]) for row in found["run_io"]} == io
    stated = {(row["job_name"], row["direction"], row["dataset_name"], row["is_implied"]) for row in found["job_edges"]}
    assert stated == edges
    assert {row["dataset_name"] for row in found["job_edges"]} <= {row["name"] for row in found["datasets"]}


READ_A, READ_B, WROTE_C = ("INPUT", "a"), ("INPUT", "b"), ("OUTPUT", "c")
BY_OWN = {**entry("c"), "inputs": [{"type": "JOB", "namespace": "n", "name": "own"}]}
OTHER_JOB = {"namespace": "n", "name": "other", "facets": lineage(BY_OWN)}


@pytest.mark.parametrize(
    ("log", "edges"),
    [
        ([declared(inputs=[dataset("a")]), declared(inputs=[dataset("b")])], {READ_B}),
        ([declared(inputs=[dataset("a")], outputs=[dataset("c")]), declared(outputs=[dataset("c")])], {WROTE_C}),
        # One that lists nothing tells something else of the job.
        ([declared(inputs=[dataset("a")]), declared(), declared(inputs=[], outputs=[])], {READ_A}),
        ([declared(inputs=[dataset("a")]), declared(inputs=[dataset("b")]), declared(1, inputs=[A])], {READ_A}),
        ([declared(9, inputs=[dataset("a")]), declared(1, inputs=[dataset("b")])], {READ_B}),
        # What a run did it has done.
        ([run(inputs=[dataset("a")]), declared(inputs=[dataset("b")])], {READ_A, READ_B}),
        (
            [declared(inputs=[dataset("a")]), declared(inputs=[dataset("b")]), run(inputs=[dataset("a")])],
            {READ_A, READ_B},
        ),
        # Nor does a job take back what others say of it.
        (
            [{**declared(inputs=[A]), "job": OTHER_JOB}, declared(inputs=[dataset("b")])],
            {READ_B, WROTE_C},
        ),
    ],
)
def test_a_job_reads_and_writes_what_it_declared_last(
    log: list[dict[str, Any]], edges: set[tuple[str, str]], tmp_path: Path
) -> None:
    found = in_every_order(tmp_path / "index", log)["job_edges"]
    assert {(row["direction"], row["dataset_name"]) for row in found if row["job_name"] == "own"} == edges


def fed(job: str, *upstream: str) -> dict[str, Any]:
    sources = [{"type": "JOB", "namespace": "n", "name": name} for name in upstream]
    return {"type": "JOB", "namespace": "n", "name": job, "inputs": sources}


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ([run(job=lineage(fed("j", "a", "b")))], {("j", "a"), ("j", "b")}),
        ([run(job=lineage(fed("j", "a"))), run(job=lineage(fed("j", "b")))], {("j", "b")}),
        ([run(job=lineage(fed("j", "a"))), run(job=lineage(fed("k", "b")))], {("j", "a"), ("k", "b")}),
        ([declared(job=lineage(fed("j", "a"))), declared(job=lineage(fed("k", "b")))], {("k", "b")}),
        (
            [run(job=lineage({"type": "JOB", "inputs": [{"type": "JOB", "namespace": "n", "name": "a"}]}))],
            {("own", "a")},
        ),
    ],
)
def test_jobs_that_feed_jobs(log: list[dict[str, Any]], found: set[tuple[str, str]], tmp_path: Path) -> None:
    links = in_every_order(tmp_path / "index", log)["job_dependencies"]
    assert {(row["job_name"], row["upstream_name"]) for row in links} == found
