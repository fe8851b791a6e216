"""Value types shared by query results."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct, field

from clew.events.notebook import NOTEBOOK_NAMESPACE, split_cell_name

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Multiplying it takes half the time of creating a timedelta.
_MICROSECOND = timedelta(microseconds=1)


def from_epoch_micros(microseconds: int | None) -> datetime | None:
    """Convert microseconds since 1970 (UTC) to a datetime."""
    return None if microseconds is None else EPOCH + _MICROSECOND * microseconds


State = Literal["NEW", "RUNNING", "COMPLETED", "FAILED", "ABORTED"]
CellState = Literal["completed", "failed", "stopped", "running", "lost"]
EdgeType = Literal["DIRECT", "INDIRECT"]


# Phrases for INDIRECT transformation subtypes.
_INDIRECT_PHRASES = {
    "FILTER": "filtered by",
    "JOIN": "joined on",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
    "WINDOW": "windowed by",
}


def indirect_phrase(subtype: str | None) -> str:
    """Return the phrase for an INDIRECT subtype, such as `filtered by`."""
    return _INDIRECT_PHRASES.get(subtype or "", "depending on")


def shorten(text: str, length: int) -> str:
    """Cut a text to a length, with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def to_edge_type(text: str) -> EdgeType:
    """Convert the type that a producer sent: any other than INDIRECT counts as DIRECT."""
    return "INDIRECT" if text == "INDIRECT" else "DIRECT"


def is_intermediate_frame(namespace: str, name: str) -> bool:
    """Return whether a frame was never assigned to a variable; it is then named after its operation."""
    return namespace == NOTEBOOK_NAMESPACE and split_cell_name(name) is not None


class DatasetName(Struct, frozen=True, order=True):
    """A dataset by its OpenLineage identity."""

    namespace: str
    name: str

    @property
    def is_intermediate_frame(self) -> bool:
        """Return whether it is a frame that was never assigned to a variable."""
        return is_intermediate_frame(self.namespace, self.name)


class Transformation(Struct, frozen=True):
    """Transformation of a column edge; subtype RENAME: the same column of a dataset that was renamed."""

    type: EdgeType
    subtype: str | None = None
    description: str | None = None
    is_masking: bool | None = field(default=None, name="masking")


class Field(Struct, frozen=True):
    """A column of the latest schema facet."""

    name: str
    type: str | None = None


class DescribedField(Struct):
    """A column of a `schema` facet with its description."""

    name: str
    type: str | None = None
    description: str | None = None


class _SchemaFacet(Struct):
    fields: list[DescribedField] | None = None


_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


def decode_fields(facet: bytes) -> list[DescribedField]:
    """Decode the columns of a `schema` facet; none if it is malformed."""
    try:
        return _decode_schema(facet).fields or []
    except (msgspec.DecodeError, RecursionError):
        return []


def parse_fields(facet: bytes) -> tuple[Field, ...]:
    """Parse the names and types of the columns of a `schema` facet; none if it is malformed."""
    return tuple([Field(field.name, field.type) for field in decode_fields(facet)])


class DatasetState(Struct, frozen=True):
    """A dataset after an operation; `version` distinguishes the states of a notebook variable."""

    dataset: DatasetName
    version: str | None
    fields: tuple[Field, ...]
    row_count: int | None


class ColumnLineageEdge(Struct, frozen=True):
    """A column lineage edge and the run that produced it.

    `column` is None for an edge to the whole output, `source_column` is None if the source column is unknown.
    """

    dataset: DatasetName
    version: str | None
    column: str | None
    source: DatasetName
    source_version: str | None
    source_column: str | None
    type: EdgeType
    subtype: str | None
    flag: Literal["opaque", "inferred"] | None
    run_uuid: str | None
    job_name: str

    @property
    def label(self) -> str:
        """Transformation, and its flag (`opaque`, `inferred`)."""
        flag = "" if self.flag is None else f", {self.flag}"
        return f"{(self.subtype or self.type).lower()}{flag}"


class NotebookOperation(Struct, frozen=True):
    """One user-level DataFrame operation of a notebook run."""

    run_uuid: str
    job_name: str
    execution_id: str
    cell_id: str
    method: str
    kind: str
    code: str
    line: int | None
    started_at: datetime | None
    duration_ms: float | None
    state: State
    inputs: tuple[DatasetState, ...]
    outputs: tuple[DatasetState, ...]


class CellError(Struct, frozen=True):
    """The exception that a cell raised."""

    type: str
    message: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


class CellExecution(Struct, frozen=True):
    """One execution of one cell."""

    execution_id: str
    cell_id: str
    name: str | None
    index: int | None
    source: str
    state: CellState
    started_at: datetime | None
    duration_ms: float | None
    start_memory_mb: float | None
    end_memory_mb: float | None
    error: CellError | None

    @property
    def own_name(self) -> str | None:
        """Name; None for a cell without one, which marimo names `_`."""
        return self.name if self.name != "_" else None

    @property
    def title(self) -> str:
        """Name, or a label from the code of a cell without one: its heading, first comment or first statement."""
        return self.own_name or _code_label(self.source) or self.cell_id

    @property
    def is_markdown(self) -> bool:
        """Return whether the cell only shows Markdown."""
        return _MARKDOWN.fullmatch(self.source.strip()) is not None

    @property
    def label(self) -> str:
        """Number and title."""
        return self.title if self.index is None else f"{self.index} {self.title}"


_MARKDOWN = re.compile(r"""\w+\.md\(\s*[rRfF]{0,2}("{3}|'{3}|"|')(?P<text>(?:(?!\1).)*)\1\s*,?\s*\)""", re.DOTALL)
_IMPORT = re.compile(r"(?:import|from)\s")
_MAX_LABEL_CHARS = 48


def _code_label(source: str) -> str:
    markdown = _MARKDOWN.fullmatch(source.strip())
    lines = [line.strip() for line in (markdown["text"] if markdown else source).splitlines() if line.strip()]
    if not lines:
        return ""
    statements = [line for line in lines if not _IMPORT.match(line)]
    label = lines[0].lstrip("# ") if markdown or lines[0].startswith("#") else (statements or lines)[0]
    return shorten(label, _MAX_LABEL_CHARS)


class LostLineage(Struct, frozen=True):
    """Something that capture could not follow: where and why, and the code or the query."""

    message: str
    code: str


class NotebookRun(Struct, frozen=True):
    """One notebook session: cells in run order, operations, inputs, outputs and column edges."""

    session_id: str
    run_uuid: str | None
    notebook: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    cells: tuple[CellExecution, ...]
    operations: tuple[NotebookOperation, ...]
    reads: tuple[DatasetState, ...]
    writes: tuple[DatasetState, ...]
    edges: tuple[ColumnLineageEdge, ...]
    losses: tuple[LostLineage, ...] = ()

    def operations_of(self, cell: CellExecution) -> list[NotebookOperation]:
        """Return the operations of a cell in order of execution."""
        return [operation for operation in self.operations if operation.execution_id == cell.execution_id]

    def outputs_of(self, cell: CellExecution) -> list[DatasetState]:
        """Return the last state of each dataset that a cell produced, without intermediate frames."""
        states = (state for operation in self.operations_of(cell) for state in operation.outputs)
        return list({state.dataset: state for state in states if not state.dataset.is_intermediate_frame}.values())


class SessionSummary(Struct, frozen=True, rename="camel"):
    """A notebook session in a list."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    ended_at: datetime | None
    cell_count: int
    failed_cell_count: int


class LineageStep(Struct, frozen=True):
    """A column and its upstream tree; each step has the operation that produced it."""

    dataset: DatasetName
    version: str | None
    column: str | None
    edge: ColumnLineageEdge | None
    operation: NotebookOperation | None
    cell: CellExecution | None
    upstream: tuple[LineageStep, ...]
    is_repeated: bool = False

    @property
    def is_indirect(self) -> bool:
        """Return whether its edge is INDIRECT."""
        return self.edge is not None and self.edge.type == "INDIRECT"

    @property
    def indirect_phrase(self) -> str:
        """Phrase for the INDIRECT subtype of its edge, such as `filtered by`."""
        return indirect_phrase(None if self.edge is None else self.edge.subtype)
