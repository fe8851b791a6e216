"""The document that the page of a notebook run is drawn from: one JSON value, positions included.

Datasets, operations and cells are named by their place in `states`, `operations` and `cells`, so that an edge is a few
numbers however long the names are. Keys are camelCase in JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from clew.query.layout import Box
from clew.query.model import CellState, Dataset, EdgeType, Field
from clew.query.model import State as RunState

Flag = Literal["opaque", "inferred"]


class Header(Struct, frozen=True, rename="camel"):
    """What happened, in one line."""

    session_id: str
    notebook: str
    state: RunState
    started_at: datetime | None
    duration_ms: float | None
    cell_count: int
    failed_count: int
    peak_memory_mb: float | None


class PageState(Struct, frozen=True, rename="camel"):
    """A dataset between two operations. `producer` is the one that left it so, None for what came from outside."""

    namespace: str
    name: str
    label: str
    kind: Literal["file", "frame"]
    version: str | None
    row_count: int | None
    columns: tuple[Field, ...]
    producer: int | None


class PageOperation(Struct, frozen=True, rename="camel"):
    """One operation: the cell it ran in, its line and text, the states before and after it."""

    cell: int | None
    method: str
    kind: str
    code: str
    line: int | None
    started_at: datetime | None
    duration_ms: float | None
    state: RunState
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class PageError(Struct, frozen=True, rename="camel"):
    """Why a cell failed and, where its traceback says so, on which of its lines."""

    type: str
    message: str
    traceback: str
    line: int | None


class PageCell(Struct, frozen=True, rename="camel"):
    """One execution of a cell. `offset` and `share` place it on the time bar, as parts of the run's busy time."""

    execution_id: str
    cell_id: str
    number: int
    title: str
    state: CellState
    source: str
    shown_lines: tuple[int, ...]
    error: PageError | None
    started_at: datetime | None
    duration_ms: float | None
    offset: float
    share: float
    start_memory_mb: float | None
    end_memory_mb: float | None
    frames: tuple[int, ...]


class ColumnAddress(Struct, frozen=True):
    """A column by name, as a person asks for it; without a version the last one is meant."""

    dataset: Dataset
    version: str | None
    column: str | None


class Port(Struct, frozen=True, rename="camel"):
    """A column of a state; None stands for the whole of it."""

    state: int
    column: str | None


class PageEdge(Struct, frozen=True, rename="camel"):
    """One column's influence on another, between exact states."""

    source: Port
    target: Port
    type: EdgeType
    subtype: str | None
    flag: Flag | None
    operation: int | None


class Link(Struct, frozen=True, rename="camel"):
    """A thread between two boxes; `states` are what travels along it. Boxes are `cell:<i>` and `state:<i>`."""

    source: str
    target: str
    states: tuple[int, ...]


class Lane(Struct, frozen=True, rename="camel"):
    """What a lane shows, by place, and how many there are in all."""

    items: tuple[int, ...]
    total: int


class CardMetrics(Struct, frozen=True, rename="camel"):
    """Heights of the parts of a card, which the page's style takes from here so that boxes and text agree."""

    head: float
    row: float
    max_rows: int


class CellMetrics(Struct, frozen=True, rename="camel"):
    """Heights of the parts of a cell's card."""

    head: float
    line: float
    ports: float


class LanesView(Struct, frozen=True, rename="camel"):
    """Three lanes: what was read, the cells in run order, what was written."""

    reads: Lane
    cells: Lane
    writes: Lane
    links: tuple[Link, ...]
    boxes: dict[str, Box]
    width: float
    height: float
    card: CardMetrics
    cell: CellMetrics


class GraphNode(Struct, frozen=True, rename="camel"):
    """A box of the graph; the hidden counts say how many neighbours this view leaves out."""

    id: str
    box: Box
    hidden_upstream: int
    hidden_downstream: int


class GraphView(Struct, frozen=True, rename="camel"):
    """Datasets and cells as a graph, whole or around the state `centre`; `total` counts the nodes of the session."""

    scope: Literal["hop", "session"]
    centre: int | None
    nodes: tuple[GraphNode, ...]
    links: tuple[Link, ...]
    total: int
    card: CardMetrics


class SentencePart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A piece of the answer in words; `cell` and `line` lead to the code it speaks of."""

    kind: Literal["target", "code", "source", "influence", "note"]
    text: str
    cell: int | None = None
    line: int | None = None


class AnswerHop(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A column in the answer's tree, how it got into the one above it, and by which line of code."""

    label: str
    version: str | None
    column: str | None
    type: EdgeType | None = None
    subtype: str | None = None
    flag: Flag | None = None
    cell: int | None = None
    line: int | None = None
    code: str | None = None
    upstream: tuple[AnswerHop, ...] = ()
    is_repeated: bool = False


class Answer(Struct, frozen=True, rename="camel"):
    """Where a column comes from: a sentence, and the same as a tree."""

    port: Port
    sentence: tuple[SentencePart, ...]
    tree: AnswerHop


class RunPage(Struct, frozen=True, rename="camel"):
    """All that the page shows of one run."""

    format: Literal[1]
    header: Header
    focus: Port | None
    answer: Answer | None
    states: tuple[PageState, ...]
    operations: tuple[PageOperation, ...]
    cells: tuple[PageCell, ...]
    edges: tuple[PageEdge, ...]
    edge_total: int
    lanes: LanesView
    graphs: tuple[GraphView, ...]
