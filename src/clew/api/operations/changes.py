"""What differs, and what facets said over time."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from clew.api.operations import Asked, Operation
from clew.api.parameters import Cursor, Integer, Text, cursor_of
from clew.errors import MalformedError
from clew.query.diff import RunDiff, VersionDiff, code_diffs, code_in, run_diff, version_diff
from clew.query.facets import facets_in_lake, history, run_facets
from clew.query.graph.nodes import Node
from clew.query.model import Dataset
from clew.query.names import UnknownNameError
from clew.query.node_ids import DATASET, JOB, RUN, find_node, kind_of
from clew.query.run_walk import require_run

_CURSOR = Cursor("cursor", "Where the page before ended: next of its answer.")
_NODE = Text(
    "nodeId",
    "Whose facets: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME or run:UUID.",
    is_required=True,
    example="dataset:file:/data/orders.csv",
)


class Facets(Struct, frozen=True, rename="camel"):
    """The facets that count after all events so far, by name, byte for byte as they came."""

    id: str
    facets: dict[str, Raw]


class FacetVersion(Struct, frozen=True, rename="camel"):
    """A facet as it was for a while; null while it was deleted."""

    facet: Raw | None
    first_at: str
    last_at: str
    first_run_id: str | None
    last_run_id: str | None
    events: int


class FacetHistory(Struct, frozen=True, rename="camel"):
    """What a facet said over time, the newest first; `next` is the cursor of the page after it."""

    id: str
    name: str
    versions: tuple[FacetVersion, ...]
    next: str | None


class Difference(Struct, frozen=True, rename="camel"):
    """What differs between two runs, or between two versions of a dataset: the other is null."""

    runs: RunDiff | None
    versions: VersionDiff | None


def _facets(asked: Asked) -> Facets:
    node_id: str = asked["nodeId"]
    kind, index = kind_of(node_id), asked.index
    if kind == RUN:
        run_uuid = node_id.partition(":")[2]
        require_run(index, run_uuid)
        found = run_facets(index, run_uuid, asked.holdings.lake)
    else:
        node = find_node(index, node_id)
        node_id = node.id
        identity = (node.namespace, node.name) if kind == JOB else _version(asked, node)
        found = {name: Raw(facet) for name, facet in index.facets(kind, *identity).items()}
    name = asked["name"]
    return Facets(node_id, found if name is None else {one: facet for one, facet in found.items() if one == name})


def _version(asked: Asked, node: Node) -> tuple[str | None, ...]:
    """A dataset in the version that is asked for, or that was described last."""
    known, wanted = asked.index.described_versions(node.namespace, node.name), asked["version"]
    if wanted is not None and wanted not in known:
        raise UnknownNameError.of(f"version of {node.name}", wanted, [version for version in known if version])
    return node.namespace, node.name, wanted if wanted is not None or not known else known[0]


def _history(asked: Asked) -> FacetHistory:
    node_id: str = asked["nodeId"]
    kind, index = kind_of(node_id), asked.index
    if kind == RUN:
        identity: tuple[str, ...] = (node_id.partition(":")[2],)
        require_run(index, identity[0])
    else:
        node = find_node(index, node_id)
        node_id, identity = node.id, (node.namespace, node.name)
    states = history(asked.holdings.lake, kind, identity, asked["name"])  # type: ignore[arg-type]
    noted = _CURSOR.shape(asked["cursor"], int)
    start, limit = 0 if noted is None else max(0, noted[0]), asked["limit"]
    versions = tuple(
        FacetVersion(
            one.facet,
            one.first_at.isoformat(),
            one.last_at.isoformat(),
            one.first_run_id,
            one.last_run_id,
            one.events,
        )
        for one in states[start : start + limit]
    )
    return FacetHistory(
        node_id, asked["name"], versions, cursor_of(start + limit) if start + limit < len(states) else None
    )


def _diff(asked: Asked) -> Difference:
    left, right, node_id = _plain(asked["left"]), _plain(asked["right"]), asked["nodeId"]
    if node_id is not None:
        if kind_of(node_id) != DATASET:
            raise MalformedError("Only datasets have versions to compare.", hint="Name runs with left and right.")
        node = find_node(asked.index, node_id)
        dataset = Dataset(node.namespace, node.name)
        return Difference(None, version_diff(asked.index, dataset, left, right))
    if left is None or right is None:
        hint = "Give left and right as run:UUID, or nodeId of a dataset."
        raise MalformedError("Two are needed to compare.", hint=hint)
    code = code_diffs(_code(asked, left), _code(asked, right))
    return Difference(run_diff(asked.index, left, right, code), None)


def _plain(name: str | None) -> str | None:
    return None if name is None else name.removeprefix("run:")


def _code(asked: Asked, run_uuid: str) -> dict[str, str | None]:
    """The code of a run, which only the lake has: the index keeps what its job said last."""
    lake = asked.holdings.lake
    require_run(asked.index, run_uuid)
    found = None if lake is None else facets_in_lake(run_uuid, lake)
    return {} if found is None else {name: text for job in found.jobs for name, text in code_in(job.facets).items()}


CHANGE_OPERATIONS: Final = (
    Operation(
        "facets",
        "/api/v2/facets",
        "The facets of a dataset, a job or a run",
        (
            _NODE,
            Text("name", "Only the facet of this name."),
            Text("version", "Of which version of the dataset; the one described last unless given."),
        ),
        Facets,
        _facets,
    ),
    Operation(
        "facetHistory",
        "/api/v2/facets/history",
        "What a facet said over time",
        (
            _NODE,
            Text("name", "The facet's name.", is_required=True, example="schema"),
            Integer("limit", "How many to tell.", least=1, most=200, usual=20),
            _CURSOR,
        ),
        FacetHistory,
        _history,
    ),
    Operation(
        "diff",
        "/api/v2/diff",
        "What differs between two runs, or between two versions of a dataset",
        (
            Text("left", "A run, as run:UUID; of a dataset also a version. The one before the last unless given."),
            Text("right", "A run, as run:UUID; of a dataset also a version. The last one unless given."),
            Text("nodeId", "The dataset whose versions to compare.", example="dataset:file:/data/orders.csv"),
        ),
        Difference,
        _diff,
    ),
)
