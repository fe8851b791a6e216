"""Tests of lineage in the index: explicit and column lineage, implied edges and aliases, in any order of events."""

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
explicit_lineages = st.fixed_dictionaries({"inputs": st.lists(sources, max_size=2)})
entries = st.builds(lambda target, inputs: {**target, **inputs}, sources, explicit_lineages)
columns = datasets.map(lambda source: {"fields": {"x": {"inputFields": [{**source, "field": "y"}]}}})
symlinks = st.lists(datasets, max_size=2).map(lambda identifiers: {"identifiers": identifiers})
changes = st.builds(
    lambda state, previous: {"lifecycleStateChange": state, "previousIdentifier": previous},
    st.sampled_from(["CREATE", "DROP", "RENAME"]),
    datasets,
)
deleted = st.just({"_deleted": True})
facets = st.fixed_dictionaries(
    {},
    optional={
        "columnLineage": columns | deleted,
        "lineage": explicit_lineages | deleted,
        "symlinks": symlinks | deleted,
        "lifecycleStateChange": changes | deleted,
    },
)
datasets_with_facets = st.builds(lambda dataset, values: {**dataset, "facets": values}, datasets, facets)
job_facets = st.fixed_dictionaries(
    {}, optional={"lineage": st.lists(entries, max_size=2).map(lambda values: {"entries": values}) | deleted}
)
jobs = st.builds(lambda values: {"namespace": "n", "name": "own", "facets": values}, job_facets)
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
        st.lists(datasets_with_facets, max_size=2),
        st.lists(datasets_with_facets, max_size=2),
    ),
    st.builds(
        lambda time, job, inputs, outputs: {**time, "job": job, "inputs": inputs, "outputs": outputs},
        times,
        jobs,
        st.lists(datasets, max_size=1),
        st.lists(datasets_with_facets, max_size=1),
    ),
    st.builds(lambda time, dataset: {**time, "dataset": dataset}, times, datasets_with_facets),
)


def extract_changes(numbered: list[tuple[int, dict[str, Any]]]) -> ChangeSet:
    extractor = ChangeExtractor()
    for seq, event in numbered:
        extractor.add(decode_event("openlineage", json.dumps(event).encode()), f"{seq:032x}", seq)
    return extractor.changes()


def index_batches(path: Path, batches: list[list[tuple[int, dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the lineage tables of a new index after the batches."""
    path.unlink(missing_ok=True)
    with IndexWriter(path) as index_writer:
        # Thousands of small transactions; durability is not needed.
        index_writer._database.execute("pragma synchronous = off")
        index_writer._database.execute("pragma journal_mode = memory")
        for number, batch in enumerate(batches):
            index_writer.apply(f"test/{number}", extract_changes(batch))
        return {table: table_rows(index_writer, table) for table in TABLES}


def table_rows(index_writer: IndexWriter, table: str) -> list[dict[str, Any]]:
    cursor = index_writer._database.execute(f"select * from {table}")
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
    expected = index_batches(path, [numbered])
    single_events = [[event] for event in numbered]
    assert index_batches(path, data.draw(st.permutations(single_events))) == expected
    assert index_batches(path, [*data.draw(st.permutations(single_events)), numbered]) == expected


def dataset(name: str, **dataset_facets: Any) -> dict[str, Any]:
    return {"namespace": "n", "name": name, "facets": dataset_facets}


def run(minute: int = 0, *, job: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    own_job = {"namespace": "n", "name": "own", "facets": job or {}}
    return {"eventTime": f"2026-01-01T10:{minute:02}:00Z", "run": {"runId": "r"}, "job": own_job, **parts}


def job_event(minute: int = 0, **parts: Any) -> dict[str, Any]:
    event = run(minute, **parts)
    del event["run"]
    return event


def dataset_event(minute: int, name: str, **dataset_facets: Any) -> dict[str, Any]:
    return {"eventTime": f"2026-01-01T10:{minute:02}:00Z", "dataset": dataset(name, **dataset_facets)}


def change(state: str, previous_name: str | None = None) -> dict[str, Any]:
    previous = {} if previous_name is None else {"previousIdentifier": {"namespace": "n", "name": previous_name}}
    return {"lifecycleStateChange": state, **previous}


def index_in_every_order(path: Path, log: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    numbered = list(enumerate(log))
    tables = index_batches(path, [numbered])
    for order in permutations([[event] for event in numbered]):
        assert index_batches(path, list(order)) == tables
    return tables


@pytest.mark.parametrize(
    ("log", "deleted"),
    [
        ([dataset_event(0, "a")], set()),
        ([dataset_event(0, "a", lifecycleStateChange=change("DROP"))], {"a"}),
        ([run(0, outputs=[dataset("a", lifecycleStateChange=change("DROP"))])], {"a"}),
        ([run(0, outputs=[dataset("a", lifecycleStateChange=change("DROP"))]), run(1, inputs=[dataset("a")])], {"a"}),
        ([dataset_event(1, "a", lifecycleStateChange=change("DROP")), run(2, outputs=[dataset("a")])], set()),
        ([dataset_event(1, "a", lifecycleStateChange=change("DROP")), run(0, outputs=[dataset("a")])], {"a"}),
        (
            [
                dataset_event(1, "a", lifecycleStateChange=change("DROP")),
                dataset_event(2, "a", lifecycleStateChange=change("CREATE")),
            ],
            set(),
        ),
        ([dataset_event(0, "a", lifecycleStateChange=change("TRUNCATE"))], set()),
        ([dataset_event(0, "a"), dataset_event(1, "b", lifecycleStateChange=change("RENAME", "a"))], {"a"}),
        (
            [
                run(0, outputs=[dataset("a")]),
                dataset_event(1, "b", lifecycleStateChange=change("RENAME", "a")),
                run(2, outputs=[dataset("a")]),
            ],
            set(),
        ),
        ([dataset_event(0, "a", lifecycleStateChange=change("RENAME", "a"))], set()),
        (
            [
                dataset_event(1, "a", lifecycleStateChange=change("DROP")),
                dataset_event(2, "a", lifecycleStateChange=None),
            ],
            {"a"},
        ),
    ],
)
def test_dropped_or_renamed_dataset_is_deleted_until_written(
    log: list[dict[str, Any]], deleted: set[str], tmp_path: Path
) -> None:
    tables = index_in_every_order(tmp_path / "index", log)
    assert {row["name"] for row in tables["dataset_states"] if row["is_deleted"]} == deleted


def test_rename_sets_previous_name_without_a_dataset_row_for_it(tmp_path: Path) -> None:
    (row,) = index_in_every_order(
        tmp_path / "index", [dataset_event(1, "b", lifecycleStateChange=change("RENAME", "a"))]
    )["datasets"]
    assert (row["name"], row["renamed_from_name"], row["lifecycle_state"]) == ("b", "a", "RENAME")


def symlinks_to(*others: str) -> dict[str, Any]:
    return {"identifiers": [{"namespace": "n", "name": other, "type": "TABLE"} for other in others]}


@pytest.mark.parametrize(
    ("log", "canonical_names"),
    [
        ([dataset_event(0, "a")], {}),
        ([dataset_event(0, "b", symlinks=symlinks_to("a")), dataset_event(1, "a")], {"a": "b", "b": "b"}),
        (
            [
                run(0, inputs=[dataset("c", symlinks=symlinks_to("b"))]),
                dataset_event(1, "b", symlinks=symlinks_to("a")),
            ],
            dict.fromkeys("abc", "b"),
        ),
        ([dataset_event(0, "b", symlinks=symlinks_to("a")), dataset_event(1, "b", symlinks={"_deleted": True})], {}),
        (
            [dataset_event(0, "b", symlinks=symlinks_to("a")), dataset_event(1, "b", symlinks=symlinks_to("c"))],
            {"b": "b", "c": "b"},
        ),
        ([dataset_event(0, "b", symlinks=symlinks_to("a")), dataset_event(1, "b")], {"a": "b", "b": "b"}),
        ([dataset_event(0, "b", symlinks=symlinks_to("b"))], {}),
    ],
)
def test_canonical_names_follow_the_last_symlinks(
    log: list[dict[str, Any]], canonical_names: dict[str, str], tmp_path: Path
) -> None:
    tables = index_in_every_order(tmp_path / "index", log)
    assert {row["name"]: row["canonical_name"] for row in tables["dataset_aliases"]} == canonical_names
    # A name that occurs only in a symlink is not a dataset.
    reported = {part["name"] for event in log for part in [event.get("dataset"), *event.get("inputs", ())] if part}
    assert {row["name"] for row in tables["datasets"]} == reported


def column_lineage(source: str) -> dict[str, Any]:
    return {"fields": {"x": {"inputFields": [{"namespace": "n", "name": source, "field": "y"}]}}}


def entry(target: str, *source_names: str) -> dict[str, Any]:
    inputs = [{"type": "DATASET", "namespace": "n", "name": name} for name in source_names]
    return {"type": "DATASET", "namespace": "n", "name": target, "inputs": inputs}


def lineage(*lineage_entries: dict[str, Any]) -> dict[str, Any]:
    return {"lineage": {"entries": list(lineage_entries)}}


OUT = [dataset("out", columnLineage=column_lineage("a"))]
DATASET_A = {**dataset("a"), "type": "DATASET"}
OUTPUT_IO, OUTPUT_EDGE = ("OUTPUT", "out", 0), ("own", "OUTPUT", "out", 0)


@pytest.mark.parametrize(
    ("log", "edges"),
    [
        ([run(outputs=OUT)], {("out", "a")}),
        # Explicit lineage has precedence over column lineage, in whichever event of the run it is.
        ([run(job=lineage(entry("out", "b")), outputs=OUT)], {("out", "b")}),
        ([run(job=lineage(entry("out", "b"))), run(outputs=OUT)], {("out", "b")}),
        ([run(job=lineage(entry("other", "b"))), run(outputs=OUT)], {("out", "a"), ("other", "b")}),
        # Entries of a run accumulate by target; a later entry of a target replaces the earlier one.
        ([run(job=lineage(entry("c", "a"))), run(job=lineage(entry("d", "b")))], {("c", "a"), ("d", "b")}),
        ([run(job=lineage(entry("c", "a"))), run(job=lineage(entry("c", "b")))], {("c", "b")}),
        ([run(job=lineage(entry("out")), outputs=OUT)], set()),
        # Without a run, the later facet replaces the earlier one.
        ([job_event(job=lineage(entry("c", "a"))), job_event(job=lineage(entry("d", "b")))], {("d", "b")}),
        ([job_event(job=lineage(entry("c", "a"))), job_event(job=lineage())], set()),
        ([job_event(job=lineage(entry("c", "a"))), job_event(job={"lineage": {"_deleted": True}})], set()),
        ([job_event(job=lineage(entry("c", "a"))), job_event()], {("c", "a")}),
        ([job_event(job=lineage(entry("c", "a"))), run(job=lineage(entry("d", "b")))], {("c", "a"), ("d", "b")}),
        ([dataset_event(0, "c", lineage=entry("", "a")), dataset_event(1, "c", lineage=entry("", "b"))], {("c", "b")}),
        ([dataset_event(0, "c", lineage=entry("", "a")), dataset_event(1, "c", lineage={})], set()),
        ([dataset_event(0, "c", columnLineage=column_lineage("a"))], {("c", "a")}),
        # A retraction does not affect the assertion of the other facet.
        ([run(outputs=[dataset("out", columnLineage={"_deleted": True})]), run(outputs=OUT)], {("out", "a")}),
        ([run(outputs=OUT), run(outputs=[dataset("out", columnLineage={"_deleted": True})])], set()),
    ],
)
def test_current_assertions(log: list[dict[str, Any]], edges: set[tuple[str, str]], tmp_path: Path) -> None:
    tables = index_in_every_order(tmp_path / "index", log)
    assert {(row["dataset_name"], row["source_name"]) for row in tables["column_edges"]} == edges


def test_explicit_lineage_has_the_version_of_the_output(tmp_path: Path) -> None:
    versioned = dataset("out", version={"datasetVersion": "8"})
    tables = index_in_every_order(tmp_path / "index", [run(job=lineage(entry("out", "a"))), run(outputs=[versioned])])
    assert [row["dataset_version"] for row in tables["column_edges"]] == ["8"]


@pytest.mark.parametrize(
    ("log", "io", "edges"),
    [
        ([run(outputs=OUT)], {("INPUT", "a", 1), OUTPUT_IO}, {("own", "INPUT", "a", 1), OUTPUT_EDGE}),
        (
            [run(outputs=OUT, inputs=[DATASET_A])],
            {("INPUT", "a", 0), OUTPUT_IO},
            {("own", "INPUT", "a", 0), OUTPUT_EDGE},
        ),
        (
            [run(outputs=OUT), run(inputs=[DATASET_A])],
            {("INPUT", "a", 0), OUTPUT_IO},
            {("own", "INPUT", "a", 0), OUTPUT_EDGE},
        ),
        ([job_event(outputs=OUT)], set(), {("own", "INPUT", "a", 1), OUTPUT_EDGE}),
        ([dataset_event(0, "c", lineage=entry("", "a"))], set(), set()),
        (
            [run(job=lineage({"type": "JOB", "namespace": "n", "name": "j", "inputs": [DATASET_A]}))],
            set(),
            {("j", "INPUT", "a", 1)},
        ),
        (
            [run(job=lineage({"type": "JOB", "inputs": [DATASET_A]}))],
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
def test_lineage_implies_inputs_and_outputs(
    log: list[dict[str, Any]], io: set[tuple[str, str, int]], edges: set[tuple[str, str, str, int]], tmp_path: Path
) -> None:
    tables = index_in_every_order(tmp_path / "index", log)
    assert {(row["direction"], row["dataset_name"], row["is_implied"]) for row in tables["run_io"]} == io
    actual = {
        (row["job_name"], row["direction"], row["dataset_name"], row["is_implied"]) for row in tables["job_edges"]
    }
    assert actual == edges
    assert {row["dataset_name"] for row in tables["job_edges"]} <= {row["name"] for row in tables["datasets"]}


READS_A, READS_B, WRITES_C = ("INPUT", "a"), ("INPUT", "b"), ("OUTPUT", "c")
ENTRY_FROM_OWN_JOB = {**entry("c"), "inputs": [{"type": "JOB", "namespace": "n", "name": "own"}]}
OTHER_JOB = {"namespace": "n", "name": "other", "facets": lineage(ENTRY_FROM_OWN_JOB)}


@pytest.mark.parametrize(
    ("log", "edges"),
    [
        ([job_event(inputs=[dataset("a")]), job_event(inputs=[dataset("b")])], {READS_B}),
        ([job_event(inputs=[dataset("a")], outputs=[dataset("c")]), job_event(outputs=[dataset("c")])], {WRITES_C}),
        # An event without inputs and outputs does not replace the declaration.
        ([job_event(inputs=[dataset("a")]), job_event(), job_event(inputs=[], outputs=[])], {READS_A}),
        (
            [job_event(inputs=[dataset("a")]), job_event(inputs=[dataset("b")]), job_event(1, inputs=[DATASET_A])],
            {READS_A},
        ),
        ([job_event(9, inputs=[dataset("a")]), job_event(1, inputs=[dataset("b")])], {READS_B}),
        # A declaration does not remove edges of runs.
        ([run(inputs=[dataset("a")]), job_event(inputs=[dataset("b")])], {READS_A, READS_B}),
        (
            [job_event(inputs=[dataset("a")]), job_event(inputs=[dataset("b")]), run(inputs=[dataset("a")])],
            {READS_A, READS_B},
        ),
        # A declaration does not remove edges asserted by other jobs.
        (
            [{**job_event(inputs=[DATASET_A]), "job": OTHER_JOB}, job_event(inputs=[dataset("b")])],
            {READS_B, WRITES_C},
        ),
    ],
)
def test_last_declaration_of_a_job_counts(
    log: list[dict[str, Any]], edges: set[tuple[str, str]], tmp_path: Path
) -> None:
    rows = index_in_every_order(tmp_path / "index", log)["job_edges"]
    assert {(row["direction"], row["dataset_name"]) for row in rows if row["job_name"] == "own"} == edges


def job_entry(job: str, *upstream: str) -> dict[str, Any]:
    sources = [{"type": "JOB", "namespace": "n", "name": name} for name in upstream]
    return {"type": "JOB", "namespace": "n", "name": job, "inputs": sources}


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([run(job=lineage(job_entry("j", "a", "b")))], {("j", "a"), ("j", "b")}),
        ([run(job=lineage(job_entry("j", "a"))), run(job=lineage(job_entry("j", "b")))], {("j", "b")}),
        ([run(job=lineage(job_entry("j", "a"))), run(job=lineage(job_entry("k", "b")))], {("j", "a"), ("k", "b")}),
        ([job_event(job=lineage(job_entry("j", "a"))), job_event(job=lineage(job_entry("k", "b")))], {("k", "b")}),
        (
            [run(job=lineage({"type": "JOB", "inputs": [{"type": "JOB", "namespace": "n", "name": "a"}]}))],
            {("own", "a")},
        ),
    ],
)
def test_job_dependencies(log: list[dict[str, Any]], expected: set[tuple[str, str]], tmp_path: Path) -> None:
    rows = index_in_every_order(tmp_path / "index", log)["job_dependencies"]
    assert {(row["job_name"], row["upstream_name"]) for row in rows} == expected
