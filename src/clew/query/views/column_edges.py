"""Column edges between the datasets of a graph: what jobs said, and what a notebook did from file to file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from clew.events.notebook import FRAMES
from clew.index.browsing import Browser
from clew.query.model import EdgeType, NotebookRun
from clew.query.run_page_model import PageEdge, Port
from clew.query.run_page_states import RunStates, run_states
from clew.query.views.model import Name

_MOST_EDGES = 20_000
# Lines of code that an edge through a notebook names: the last ones before the file.
_MOST_CODES = 3


class ColumnWay(Struct, frozen=True):
    """A column's way from one dataset to the next, with what was done to it."""

    target: Name
    column: str | None
    source: Name
    source_column: str | None
    type: EdgeType
    subtype: str | None
    is_guessed: bool
    job: Name
    code: tuple[str, ...] = ()


def stated_ways(index: Browser, dataset: Name) -> list[ColumnWay]:
    """What the last statement on a dataset says; nothing of what a notebook's operations said: see `notebook_ways`."""
    return [
        ColumnWay(
            target=dataset,
            column=row["column"],
            source=Name(row["source_namespace"], row["source_name"]),
            source_column=row["source_column"],
            type="INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
            subtype=row["subtype"],
            is_guessed=row["description"] in {"opaque", "inferred"},
            job=Name(row["job_namespace"] or "", row["job_name"] or ""),
            code=(row["description"],) if row["description"] not in {None, "", "opaque", "inferred"} else (),
        )
        for row in index.last_edges(dataset.parts, _MOST_EDGES)
        if row["session_id"] is None
    ]


def notebook_ways(run: NotebookRun, job: Name) -> list[ColumnWay]:
    """From the columns of files that a run wrote back to the columns of files that it read, frames passed over."""
    whole = run_states(run)
    into: defaultdict[tuple[int, str | None], list[PageEdge]] = defaultdict(list)
    for edge in whole.edges:
        into[edge.target.state, edge.target.column].append(edge)
    ways = [
        way
        for place in whole.writes
        for field in whole.states[place].columns
        for way in _ways(whole, into, Port(place, field.name), job)
    ]
    return list(dict.fromkeys(ways))


_Into = defaultdict[tuple[int, str | None], list[PageEdge]]


class _Way(Struct):
    port: Port
    type: EdgeType
    subtype: str | None
    is_guessed: bool
    code: tuple[str, ...]


def _ways(whole: RunStates, into: _Into, root: Port, job: Name) -> Iterator[ColumnWay]:
    target = whole.states[root.state]
    queue = [_Way(root, "DIRECT", None, False, ())]  # noqa: FBT003
    seen: set[tuple[Port, EdgeType]] = set()
    for way in queue:
        if (way.port, way.type) in seen:
            continue
        seen.add((way.port, way.type))
        state = whole.states[way.port.state]
        if way.port != root and state.namespace != FRAMES:
            yield ColumnWay(
                target=Name(target.namespace, target.name),
                column=root.column,
                source=Name(state.namespace, state.name),
                source_column=way.port.column,
                type=way.type,
                subtype=way.subtype,
                is_guessed=way.is_guessed,
                job=job,
                code=way.code,
            )
            continue
        # What holds for the whole of a frame holds for each of its columns.
        edges = [*into[way.port.state, way.port.column], *(into[way.port.state, None] if way.port.column else [])]
        queue += [_before(whole, way, edge) for edge in edges if way.type == "DIRECT" or edge.type == "DIRECT"]


def _before(whole: RunStates, way: _Way, edge: PageEdge) -> _Way:
    is_plain = edge.subtype in {None, "IDENTITY"} or edge.operation is None
    code = () if is_plain or edge.operation is None else (whole.operations[edge.operation].code,)
    # What sways says how it does; of what makes, the last step that did something.
    is_told = way.type == "INDIRECT" or (edge.type == "DIRECT" and way.subtype not in {None, "IDENTITY"})
    return _Way(
        port=edge.source,
        type="INDIRECT" if "INDIRECT" in {way.type, edge.type} else "DIRECT",
        subtype=way.subtype if is_told else edge.subtype,
        is_guessed=way.is_guessed or edge.flag is not None,
        code=tuple(dict.fromkeys([*way.code, *code]))[:_MOST_CODES],
    )
