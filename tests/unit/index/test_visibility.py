"""Tests of the part of an index that a connection limited to namespaces shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.event_generator import Scenario

from clew.data_dir import IndexLocation
from clew.index.backends import open_backend
from clew.index.queries.reader import IndexReader
from clew.index.visibility import HIDDEN_NAMESPACE, NameMask


@pytest.fixture
def mask() -> NameMask:
    return NameMask(("shop", "s3://a"), "secret")


@pytest.mark.parametrize(
    ("namespace", "is_visible"),
    [
        ("shop", True),
        ("shop-eu", True),
        ("s3://a/b", True),
        ("Shop", False),
        ("", False),
        ("x shop", False),
        (None, False),
    ],
)
def test_a_prefix_selects_namespaces(mask: NameMask, namespace: str | None, is_visible: bool) -> None:
    assert mask.is_visible(namespace) == is_visible


def test_masks_references_in_a_document(mask: NameMask) -> None:
    own = {"namespace": "shop", "name": "orders", "field": "id"}
    other = {"namespace": "hr", "name": "salaries", "field": "pay", "uri": "hr://salaries"}
    text = json.dumps([own, {"deep": [{**other, "inputs": [own, other], "transformations": [{"description": "pay"}]}]}])
    masked = mask.mask_json(text.encode()).decode()
    assert json.loads(masked)[0] == own
    assert all(name not in masked for name in ("hr", "salaries", "pay"))
    assert mask.mask_json(b'{"names\\u0070ace": "hr", "name": "pay"}').find(b"pay") < 0
    assert mask.mask_json(b'{"fields": [1e2]}') == b'{"fields": [1e2]}'


def test_opaque_names_are_stable_and_need_the_secret(mask: NameMask) -> None:
    assert mask.opaque_name("hr", "pay") == NameMask(("other",), "secret").opaque_name("hr", "pay")
    assert mask.opaque_name("hr", "pay") != NameMask(("shop",), "other").opaque_name("hr", "pay")
    assert mask.opaque_name("hr", "pay") != mask.opaque_name("h", "rpay")


def read_edges(index: IndexReader) -> set[tuple[Any, ...]]:
    names = "job_namespace, job_name, dataset_namespace, dataset_name"
    return {tuple(row) for row in index.query(f"select {names} from job_edges")}


def test_both_databases_give_the_same_opaque_names(index_location: IndexLocation, scenario: Scenario) -> None:
    scenario.index = index_location
    scenario.run("load", "hr:salaries", "orders", columns={"orders": {"id": "hr:salaries.pay"}})
    scenario.index_events()
    with IndexReader(index_location, namespaces=["jobs", "db"]) as index:
        assert index.mask is not None
        opaque = HIDDEN_NAMESPACE, index.mask.opaque_name("hr", "salaries")
        assert read_edges(index) == {("jobs", "load", *opaque), ("jobs", "load", "db", "orders")}
        sources = "select source_namespace, source_name, source_column from column_edges"
        assert [tuple(row) for row in index.query(sources)] == [(*opaque, index.mask.opaque_name("", "pay"))]
        columns = index.query("select distinct namespace from datasets")
        assert [row[0] for row in columns] == ["db"]


def test_aliases_are_shown_under_a_visible_name(index_location: IndexLocation, scenario: Scenario) -> None:
    scenario.index = index_location
    scenario.events.append(
        {
            "eventTime": "2026-01-01T10:00:00Z",
            "dataset": {
                "namespace": "hr",
                "name": "people",
                "facets": {"symlinks": {"identifiers": [{"namespace": "db", "name": "staff", "type": "TABLE"}]}},
            },
        }
    )
    scenario.index_events()
    with IndexReader(index_location, namespaces=["db"]) as index:
        assert index.find_canonical_name(("db", "staff")) == ("db", "staff")
        assert all("people" not in str(tuple(row)) for row in index.query("select * from dataset_aliases"))


def test_a_replaced_index_is_limited_too(index_location: IndexLocation, scenario: Scenario) -> None:
    scenario.index = index_location
    scenario.run("load", "", "orders")
    scenario.index_events()
    reader = IndexReader(index_location, namespaces=["db"])
    with open_backend(index_location).staged() as staging:
        writer = staging.writer()
        writer.database.execute("insert into referenced_jobs values ('hr', 'payroll', 1, 1, 1, 1)")
        writer.database.close()
    with reader:
        assert reader.query("select * from all_jobs") == []
    with IndexReader(index_location) as everything:
        assert len(everything.query("select * from all_jobs")) == 1


LOOKUPS = {
    "run_io": "select * from run_io where run_uuid = ? order by run_uuid, direction, dataset_namespace, dataset_name",
    "run_io by dataset": "select * from run_io where dataset_namespace = ? and dataset_name = 'a'",
    "lineage_assertions": "select * from lineage_assertions where dataset_namespace = ? and dataset_name = 'a'",
    "job_edges": "select * from job_edges where job_namespace = ? and job_name = 'a'",
    "renames": "select * from renames where namespace = ? and name = 'a'",
    "jobs": "select * from jobs where namespace = ? and name = 'a'",
    "facets": "select * from facets where kind = 'run' and entity_key = ?",
}


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("value", ["db", "jobs", "x"])
def test_a_lookup_reads_no_whole_table(lookup: str, value: str, tmp_path: Path) -> None:
    """A lookup takes as many steps in a small as in a larger index."""
    steps = []
    for size in (20, 400):
        scenario = Scenario(tmp_path / str(size))
        for number in range(size):
            columns = {f"out{number}": {"c": f"in{number}.c"}}
            scenario.run(f"job{number}", f"in{number}", f"hr:out{number} out{number}", columns=columns)
            scenario.rename(f"old{number}", f"new{number}")
        steps.append(count_steps(scenario.index_events(), LOOKUPS[lookup], value))
    assert steps[1] <= steps[0] + 5


def count_steps(location: IndexLocation, query: str, value: str) -> int:
    """Count the steps of SQLite in tens."""
    count = 0

    def count_step() -> None:
        nonlocal count
        count += 1

    with IndexReader(location, namespaces=("db", "it's")) as index:
        database: Any = index._database
        database.set_progress_handler(count_step, 10)
        index.query(query, value)
    return count


@pytest.mark.parametrize("prefix", ["it's", "é", "%", "a\0b", "\U0001f600", "(hidden)"])
def test_prefixes_are_compared_literally(prefix: str, tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    names = [prefix, f"{prefix}/x", f"x{prefix}", prefix.upper() + "!", "db"]
    scenario.run("j", " ".join(["a", *(f"{name}:{number}" for number, name in enumerate(names))]))
    location = scenario.index_events()
    with IndexReader(location, namespaces=(prefix,)) as index:
        shown = {row[0] for row in index.query("select namespace from datasets")}
    with IndexReader(location) as index:
        stored = {row[0] for row in index.query("select namespace from datasets")}
    assert shown == {name for name in stored if name.startswith(prefix)}
