"""JSON document of the page of a notebook run, including the layout.

Datasets, operations and cells are referenced by their position in `states`, `operations` and `cells`, which makes edges
small. Keys are camelCase in JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from clew.query.layout import Box
from clew.query.model import CellState, EdgeType, Field, LostLineage
from clew.query.model import State as RunState

Flag = Literal["opaque", "inferred"]
CARD_FOOT = 6


class PageHeader(Struct, frozen=True, rename="camel"):
    """Summary of the run."""

    session_id: str
    notebook: str
    state: RunState
    started_at: datetime | None
    duration_ms: float | None
    cell_count: int
    failed_count: int
    peak_memory_mb: float | None
    losses: tuple[LostLineage, ...]


class PageState(Struct, frozen=True, rename="camel"):
    """A dataset between two operations; `producer` is the operation that wrote it, None if it existed before."""

    namespace: str
    name: str
    label: str
    kind: Literal["file", "frame"]
    version: str | None
    row_count: int | None
    columns: tuple[Field, ...]
    producer: int | None


class PageOperation(Struct, frozen=True, rename="camel"):
    """One operation: its cell, line and code, and its input and output states."""

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
    """The exception of a cell, and the failing line if the traceback contains it."""

    type: str
    message: str
    traceback: str
    line: int | None


class PageCell(Struct, frozen=True, rename="camel"):
    """One execution of a cell; `offset` and `share` are fractions of the total cell time."""

    execution_id: str
    cell_id: str
    number: int
    title: str
    is_markdown: bool
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


class Port(Struct, frozen=True, rename="camel"):
    """A column of a state; None means the whole dataset."""

    state: int
    column: str | None


class PageEdge(Struct, frozen=True, rename="camel"):
    """A column lineage edge between two states."""

    source: Port
    target: Port
    type: EdgeType
    subtype: str | None
    flag: Flag | None
    operation: int | None


class PageLink(Struct, frozen=True, rename="camel"):
    """A link between two boxes (`cell:<i>` or `state:<i>`); `states` are the datasets passed along it."""

    source: str
    target: str
    states: tuple[int, ...]


class Lane(Struct, frozen=True, rename="camel"):
    """Positions of the visible items of a lane, and the total number."""

    items: tuple[int, ...]
    total: int


class CardMetrics(Struct, frozen=True, rename="camel"):
    """Heights of the parts of a dataset card; the web UI uses the same values."""

    head: float
    row: float
    max_rows: int

    def height(self, columns: int) -> float:
        """Height of a card; a longer column list ends with a row that shows the number of columns."""
        rows = min(columns, self.max_rows + 1)
        return self.head + rows * self.row + (CARD_FOOT if rows else 0)


class CellMetrics(Struct, frozen=True, rename="camel"):
    """Heights of the parts of a cell card."""

    head: float
    line: float
    ports: float


class LanesView(Struct, frozen=True, rename="camel"):
    """Three lanes: inputs, cells in run order, outputs."""

    reads: Lane
    cells: Lane
    writes: Lane
    links: tuple[PageLink, ...]
    boxes: dict[str, Box]
    width: float
    height: float
    card: CardMetrics
    cell: CellMetrics


class PageGraphNode(Struct, frozen=True, rename="camel"):
    """A box of the graph; the hidden counts are neighbours that this view omits."""

    id: str
    box: Box
    hidden_upstream: int
    hidden_downstream: int


class PageGraphView(Struct, frozen=True, rename="camel"):
    """Graph of datasets and cells, complete or around the state `centre`; `total` counts the nodes of the session."""

    scope: Literal["hop", "session"]
    centre: int | None
    nodes: tuple[PageGraphNode, ...]
    links: tuple[PageLink, ...]
    total: int
    card: CardMetrics


class SentencePart(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the explanation; `cell` and `line` refer to its code."""

    kind: Literal["target", "code", "source", "indirect", "summary"]
    text: str
    cell: int | None = None
    line: int | None = None


class ExplanationStep(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A column of the upstream tree, with its transformation and line of code."""

    label: str
    version: str | None
    column: str | None
    type: EdgeType | None = None
    subtype: str | None = None
    flag: Flag | None = None
    cell: int | None = None
    line: int | None = None
    code: str | None = None
    upstream: tuple[ExplanationStep, ...] = ()
    is_repeated: bool = False


class ColumnExplanation(Struct, frozen=True, rename="camel"):
    """Explanation of a column: a sentence and the upstream tree."""

    port: Port
    sentence: tuple[SentencePart, ...]
    tree: ExplanationStep


class RunPage(Struct, frozen=True, rename="camel"):
    """The page of one run."""

    format: Literal[1]
    header: PageHeader
    focus: Port | None
    explanation: ColumnExplanation | None
    states: tuple[PageState, ...]
    operations: tuple[PageOperation, ...]
    cells: tuple[PageCell, ...]
    edges: tuple[PageEdge, ...]
    edge_total: int
    lanes: LanesView
    graphs: tuple[PageGraphView, ...]
