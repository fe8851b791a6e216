"""Facets, facet history and diff."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from clew.api.operations import ApiOperation, OperationContext
from clew.api.parameters import CursorParam, IntegerParam, StringParam, encode_cursor
from clew.errors import MalformedError
from clew.query.diff import RunDiff, VersionDiff, code_from_facets, diff_code_by_name, diff_runs, diff_versions
from clew.query.facets import find_run_facets, get_facet_history, read_facets_from_lake
from clew.query.graph.nodes import Node
from clew.query.model import DatasetName
from clew.query.names import UnknownNameError
from clew.query.node_ids import DATASET, JOB, RUN, node_kind, resolve_node_id
from clew.query.run_walk import require_run

_CURSOR = CursorParam("cursor", "Cursor of the page: next of the previous response.")
_NODE = StringParam(
    "nodeId",
    "Node id: dataset:NAMESPACE:NAME, job:NAMESPACE:NAME or run:UUID.",
    is_required=True,
    example="dataset:file:/data/orders.csv",
)


class FacetsResponse(Struct, frozen=True, rename="camel"):
    """Current facets by name, unmodified."""

    id: str
    facets: dict[str, Raw]


class FacetVersion(Struct, frozen=True, rename="camel"):
    """Value of a facet over a period; null while deleted."""

    facet: Raw | None
    first_at: str
    last_at: str
    first_run_id: str | None
    last_run_id: str | None
    events: int


class FacetHistory(Struct, frozen=True, rename="camel"):
    """Versions of a facet, newest first; `next` is the cursor of the next page."""

    id: str
    name: str
    versions: tuple[FacetVersion, ...]
    next: str | None


class DiffResponse(Struct, frozen=True, rename="camel"):
    """Diff of two runs or of two dataset versions; the other field is null."""

    runs: RunDiff | None
    versions: VersionDiff | None


def _facets(context: OperationContext) -> FacetsResponse:
    node_id: str = context["nodeId"]
    kind, index = node_kind(node_id), context.index
    if kind == RUN:
        run_uuid = node_id.partition(":")[2]
        require_run(index, run_uuid)
        facets = find_run_facets(index, run_uuid, context.resources.lake_location)
    else:
        node = resolve_node_id(index, node_id)
        node_id = node.id
        identity = (node.namespace, node.name) if kind == JOB else _dataset_version(context, node)
        facets = {name: Raw(facet) for name, facet in index.facets(kind, *identity).items()}
    name = context["name"]
    return FacetsResponse(
        node_id,
        facets if name is None else {facet_name: facet for facet_name, facet in facets.items() if facet_name == name},
    )


def _dataset_version(context: OperationContext, node: Node) -> tuple[str | None, ...]:
    """Return the dataset with the requested version, or the latest one with facets."""
    versions, requested = context.index.versions_with_facets(node.namespace, node.name), context["version"]
    if requested is not None and requested not in versions:
        raise UnknownNameError.of(f"version of {node.name}", requested, [version for version in versions if version])
    return node.namespace, node.name, requested if requested is not None or not versions else versions[0]


def _history(context: OperationContext) -> FacetHistory:
    node_id: str = context["nodeId"]
    kind, index = node_kind(node_id), context.index
    if kind == RUN:
        identity: tuple[str, ...] = (node_id.partition(":")[2],)
        require_run(index, identity[0])
    else:
        node = resolve_node_id(index, node_id)
        node_id, identity = node.id, (node.namespace, node.name)
    states = get_facet_history(context.resources.lake_location, kind, identity, context["name"])  # type: ignore[arg-type]
    values = _CURSOR.check_values(context["cursor"], int)
    start, limit = 0 if values is None else max(0, values[0]), context["limit"]
    versions = tuple(
        FacetVersion(
            state.facet,
            state.first_at.isoformat(),
            state.last_at.isoformat(),
            state.first_run_id,
            state.last_run_id,
            state.events,
        )
        for state in states[start : start + limit]
    )
    return FacetHistory(
        node_id, context["name"], versions, encode_cursor(start + limit) if start + limit < len(states) else None
    )


def _diff(context: OperationContext) -> DiffResponse:
    left, right, node_id = _strip_run_prefix(context["left"]), _strip_run_prefix(context["right"]), context["nodeId"]
    if node_id is not None:
        if node_kind(node_id) != DATASET:
            raise MalformedError("Only datasets have versions to compare.", hint="Pass runs with left and right.")
        node = resolve_node_id(context.index, node_id)
        dataset = DatasetName(node.namespace, node.name)
        return DiffResponse(None, diff_versions(context.index, dataset, left, right))
    if left is None or right is None:
        hint = "Pass left and right as run:UUID, or nodeId of a dataset."
        raise MalformedError("A diff needs two runs.", hint=hint)
    code = diff_code_by_name(_run_code(context, left), _run_code(context, right))
    return DiffResponse(diff_runs(context.index, left, right, code), None)


def _strip_run_prefix(name: str | None) -> str | None:
    return None if name is None else name.removeprefix("run:")


def _run_code(context: OperationContext, run_uuid: str) -> dict[str, str | None]:
    """Read the code of a run from the lake; the index has only the latest code of a job."""
    lake = context.resources.lake_location
    require_run(context.index, run_uuid)
    facets = None if lake is None else read_facets_from_lake(run_uuid, lake)
    return (
        {}
        if facets is None
        else {name: text for job in facets.jobs for name, text in code_from_facets(job.facets).items()}
    )


CHANGE_OPERATIONS: Final = (
    ApiOperation(
        "facets",
        "/api/v2/facets",
        "Get the facets of a dataset, job or run",
        (
            _NODE,
            StringParam("name", "Only this facet."),
            StringParam("version", "Version of the dataset (default: the latest one with facets)."),
        ),
        FacetsResponse,
        _facets,
    ),
    ApiOperation(
        "facetHistory",
        "/api/v2/facets/history",
        "Get the history of a facet",
        (
            _NODE,
            StringParam("name", "Name of the facet.", is_required=True, example="schema"),
            IntegerParam("limit", "Maximum number of results.", minimum=1, maximum=200, default_value=20),
            _CURSOR,
        ),
        FacetHistory,
        _history,
    ),
    ApiOperation(
        "diff",
        "/api/v2/diff",
        "Compare two runs or two versions of a dataset",
        (
            StringParam("left", "Run as run:UUID, or version of the dataset (default: the previous one)."),
            StringParam("right", "Run as run:UUID, or version of the dataset (default: the latest one)."),
            StringParam("nodeId", "Dataset, to compare its versions.", example="dataset:file:/data/orders.csv"),
        ),
        DiffResponse,
        _diff,
    ),
)
