"""Generator of contradictory events on few names, with all facets that derived rows depend on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

# Few values, so that events share entities and contradict each other.
names = st.sampled_from(["a", "b", "c"])
timestamps = st.integers(0, 5).map(lambda minute: f"2026-01-01T10:0{minute}:00Z")
malformed: st.SearchStrategy[Any] = st.sampled_from([None, "text", [], 7, {"_deleted": True}])
identities = st.fixed_dictionaries({"namespace": st.just("n"), "name": names})
ancestors = st.fixed_dictionaries({"run": st.fixed_dictionaries({"runId": names}), "job": identities})
parents = st.one_of(
    ancestors, st.builds(lambda parent, root: {**parent, "root": root}, ancestors, ancestors), st.just({})
)
transformations = st.fixed_dictionaries(
    {"type": st.sampled_from(["DIRECT", "INDIRECT"])},
    optional={"subtype": st.sampled_from(["FILTER", "IDENTITY"]), "masking": st.booleans()},
)
sources = st.fixed_dictionaries(
    {"namespace": st.just("n"), "name": names},
    optional={"field": names, "transformations": st.lists(transformations, max_size=2)},
)
column_lineages = st.fixed_dictionaries(
    {},
    optional={
        "fields": st.dictionaries(names, st.fixed_dictionaries({"inputFields": st.lists(sources, max_size=2)})),
        "dataset": st.lists(sources, max_size=2),
    },
)
entities = st.fixed_dictionaries(
    {"type": st.sampled_from(["DATASET", "JOB"])}, optional={"namespace": st.just("n"), "name": names, "field": names}
)
explicit_lineages = st.fixed_dictionaries(
    {},
    optional={
        "inputs": st.lists(entities, max_size=2),
        "fields": st.dictionaries(names, st.fixed_dictionaries({"inputs": st.lists(entities, max_size=2)}), max_size=1),
    },
)
entries = st.builds(lambda target, lineage: {**target, **lineage}, entities, explicit_lineages)
changes = st.fixed_dictionaries(
    {"lifecycleStateChange": st.sampled_from(["CREATE", "DROP", "RENAME"])}, optional={"previousIdentifier": identities}
)
descriptions = st.fixed_dictionaries({"description": names})
labels = {
    "tags": st.fixed_dictionaries({"tags": st.lists(st.fixed_dictionaries({"key": names}), max_size=1)}) | malformed,
    "ownership": st.fixed_dictionaries({"owners": st.lists(st.fixed_dictionaries({"name": names}), max_size=1)})
    | malformed,
}
run_facets = st.fixed_dictionaries(
    {},
    optional={
        "tags": labels["tags"],
        "parent": parents | malformed,
        "nominalTime": st.fixed_dictionaries({"nominalStartTime": timestamps}) | malformed,
        "errorMessage": st.fixed_dictionaries({"message": names, "programmingLanguage": names}) | malformed,
    },
)
job_facets = st.fixed_dictionaries(
    {},
    optional={
        "jobType": st.fixed_dictionaries({"jobType": names}, optional={"integration": names}) | malformed,
        "documentation": descriptions | malformed,
        **labels,
        "sourceCodeLocation": st.fixed_dictionaries({"url": names}, optional={"version": names}) | malformed,
        "lineage": st.fixed_dictionaries({"entries": st.lists(entries, max_size=2)}) | malformed,
    },
)
tests = st.fixed_dictionaries(
    {"assertion": names, "success": st.booleans()}, optional={"column": names, "name": names, "expected": names}
)
assertions = st.fixed_dictionaries({"assertions": st.lists(tests | malformed, max_size=3) | malformed}) | malformed
statistics = st.fixed_dictionaries(
    {},
    optional={
        "outputStatistics": st.fixed_dictionaries({"rowCount": st.integers(0, 2)}) | malformed,
        "dataQualityAssertions": assertions,
    },
)
dataset_facets = st.fixed_dictionaries(
    {},
    optional={
        "version": st.fixed_dictionaries({"datasetVersion": names}) | malformed,
        "columnLineage": column_lineages | malformed,
        "schema": st.fixed_dictionaries({"fields": st.lists(identities, max_size=1)}) | malformed,
        "lineage": explicit_lineages | malformed,
        "symlinks": st.fixed_dictionaries({"identifiers": st.lists(identities, max_size=2)}) | malformed,
        "lifecycleStateChange": changes | malformed,
        "documentation": descriptions | malformed,
        "dataQualityAssertions": assertions,
        **labels,
    },
)
datasets = st.fixed_dictionaries(
    {"namespace": st.just("n"), "name": names},
    optional={"facets": dataset_facets, "inputFacets": statistics, "outputFacets": statistics},
)
jobs = st.fixed_dictionaries({"namespace": st.just("n"), "name": names}, optional={"facets": job_facets})
inputs_and_outputs = {"inputs": st.lists(datasets, max_size=2), "outputs": st.lists(datasets, max_size=2)}
run_events = st.fixed_dictionaries(
    {
        "eventTime": timestamps,
        "eventType": st.sampled_from(["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "other", "complete", None]),
        "run": st.fixed_dictionaries({"runId": names}, optional={"facets": run_facets}),
        "job": jobs,
    },
    optional={**inputs_and_outputs, "session_id": names, "execution_id": names},
)
job_events = st.fixed_dictionaries({"eventTime": timestamps, "job": jobs}, optional=inputs_and_outputs)
dataset_events = st.fixed_dictionaries({"eventTime": timestamps, "dataset": datasets})
logs = st.lists(run_events | run_events | job_events | dataset_events, min_size=1, max_size=7)


def contradictory_events(count: int) -> list[bytes]:
    """Return the events of `count` logs, deterministic; logs share no names."""
    events: list[bytes] = []

    @settings(max_examples=count, derandomize=True, phases=[Phase.generate], deadline=None, database=None)
    @given(log=logs)
    def collect(log: list[dict[str, Any]]) -> None:
        number = len(events)
        events.extend(with_unique_names(json.dumps(event), number) for event in log)

    collect()
    return events


def with_unique_names(text: str, number: int) -> bytes:
    for name in ("a", "b", "c", "n"):
        text = text.replace(f'"{name}"', f'"{name}{number}"')
    return text.encode()
