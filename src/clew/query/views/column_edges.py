"""Column edges between datasets: from lineage facets, and from file to file through a notebook run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.browsing import PageQueries
from clew.query.model import EdgeType, NotebookRun
from clew.query.run_page_model import PageEdge, Port
from clew.query.run_page_states import RunStates, track_states
from clew.query.views.model import EntityName

_MAX_EDGES = 20_000
# Code lines per edge through a notebook: the last ones before the write.
_MAX_CODE_LINES = 3


class ColumnEdgeView(Struct, frozen=True):
    """A column edge between two datasets, with the code behind it."""

    target: EntityName
    column: str | None
    source: EntityName
    source_column: str | None
    type: EdgeType
    subtype: str | None
    is_inferred: bool
    job: EntityName
    code: tuple[str, ...] = ()


def edges_from_facets(index: PageQueries, dataset: EntityName) -> list[ColumnEdgeView]:
    """Return the edges of the latest assertion on a dataset, without notebooks (see `edges_through_notebook`)."""
    return [
        ColumnEdgeView(
            target=dataset,
            column=row["column"],
            source=EntityName(row["source_namespace"], row["source_name"]),
            source_column=row["source_column"],
            type="INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
            subtype=row["subtype"],
            is_inferred=row["description"] in {"opaque", "inferred"},
            job=EntityName(row["job_namespace"] or "", row["job_name"] or ""),
            code=(row["description"],) if row["description"] not in {None, "", "opaque", "inferred"} else (),
        )
        for row in index.latest_column_edges(dataset.key, _MAX_EDGES)
        if row["session_id"] is None
    ]


def edges_through_notebook(run: NotebookRun, job: EntityName) -> list[ColumnEdgeView]:
    """Return the edges from the columns of files that a run read to those of files that it wrote."""
    run_states = track_states(run)
    incoming: defaultdict[tuple[int, str | None], list[PageEdge]] = defaultdict(list)
    for edge in run_states.edges:
        incoming[edge.target.state, edge.target.column].append(edge)
    edges = [
        edge
        for state in run_states.writes
        for field in run_states.states[state].columns
        for edge in _trace(run_states, incoming, Port(state, field.name), job)
    ]
    return list(dict.fromkeys(edges))


_Incoming = defaultdict[tuple[int, str | None], list[PageEdge]]


class _Path(Struct):
    port: Port
    type: EdgeType
    subtype: str | None
    is_inferred: bool
    code: tuple[str, ...]


def _trace(run_states: RunStates, incoming: _Incoming, root: Port, job: EntityName) -> Iterator[ColumnEdgeView]:
    target = run_states.states[root.state]
    queue = [_Path(root, "DIRECT", None, False, ())]  # noqa: FBT003
    seen: set[tuple[Port, EdgeType]] = set()
    for path in queue:
        if (path.port, path.type) in seen:
            continue
        seen.add((path.port, path.type))
        state = run_states.states[path.port.state]
        if path.port != root and state.namespace != NOTEBOOK_NAMESPACE:
            yield ColumnEdgeView(
                target=EntityName(target.namespace, target.name),
                column=root.column,
                source=EntityName(state.namespace, state.name),
                source_column=path.port.column,
                type=path.type,
                subtype=path.subtype,
                is_inferred=path.is_inferred,
                job=job,
                code=path.code,
            )
            continue
        # Edges into a frame as a whole apply to each of its columns.
        edges = [
            *incoming[path.port.state, path.port.column],
            *(incoming[path.port.state, None] if path.port.column else []),
        ]
        queue += [_extend(run_states, path, edge) for edge in edges if path.type == "DIRECT" or edge.type == "DIRECT"]


def _extend(run_states: RunStates, path: _Path, edge: PageEdge) -> _Path:
    is_identity = edge.subtype in {None, "IDENTITY"} or edge.operation is None
    code = () if is_identity or edge.operation is None else (run_states.operations[edge.operation].code,)
    # INDIRECT paths show the subtype of the INDIRECT edge; DIRECT ones that of the last step that is not IDENTITY.
    has_subtype = path.type == "INDIRECT" or (edge.type == "DIRECT" and path.subtype not in {None, "IDENTITY"})
    return _Path(
        port=edge.source,
        type="INDIRECT" if "INDIRECT" in {path.type, edge.type} else "DIRECT",
        subtype=path.subtype if has_subtype else edge.subtype,
        is_inferred=path.is_inferred or edge.flag is not None,
        code=tuple(dict.fromkeys([*path.code, *code]))[:_MAX_CODE_LINES],
    )
