"""Where the cards of the run view stand: reads on the left, cells in run order, writes on the right.

The page takes its sizes from here. It widens the middle lane to the window and moves nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.query.layout import Box
from clew.query.run_page_model import CardMetrics, CellMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clew.query.run_page_model import PageCell, PageState

READS_WIDTH = 264
CELLS_WIDTH = 580
WRITES_WIDTH = 264
GUTTER = 76
GAP = 12

# A column list longer than this is cut: the card then has one row more, which says how many there are.
CARD = CardMetrics(head=54, row=24, max_rows=8)
CARD_FOOT = 6
CELL = CellMetrics(head=36, line=18, ports=30)
CELL_FOOT = 12
# Lines of code that a cell shows before it is opened.
MAX_LINES = 5


def lane_boxes(
    states: Sequence[PageState],
    cells: Sequence[PageCell],
    reads: Iterable[int],
    shown: Iterable[int],
    writes: Iterable[int],
) -> dict[str, Box]:
    """A box for every card of the three lanes."""
    lanes = [
        (0.0, READS_WIDTH, {f"state:{i}": card_height(states[i]) for i in reads}),
        (READS_WIDTH + GUTTER, CELLS_WIDTH, {f"cell:{i}": cell_height(cells[i]) for i in shown}),
        (READS_WIDTH + CELLS_WIDTH + 2 * GUTTER, WRITES_WIDTH, {f"state:{i}": card_height(states[i]) for i in writes}),
    ]
    boxes: dict[str, Box] = {}
    for x, width, heights in lanes:
        # A file read and then overwritten is two states, so no card is asked to stand in two lanes.
        boxes |= _stack(x, width, heights)
    return boxes


def _stack(x: float, width: float, heights: Mapping[str, float]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    y = 0.0
    for name, height in heights.items():
        boxes[name] = Box(x=x, y=y, width=width, height=height)
        y += height + GAP
    return boxes


def extent(boxes: Iterable[Box]) -> tuple[float, float]:
    """Width and height of the whole."""
    placed = list(boxes)
    width = READS_WIDTH + CELLS_WIDTH + WRITES_WIDTH + 2 * GUTTER
    return width, max((box.bottom for box in placed), default=0.0)


def card_height(state: PageState) -> float:
    """Height of a dataset's card: its name, and a row for each column it shows."""
    columns = len(state.columns)
    rows = columns if columns <= CARD.max_rows else CARD.max_rows + 1
    return CARD.head + rows * CARD.row + (CARD_FOOT if rows else 0)


def cell_height(cell: PageCell) -> float:
    """Height of a cell's card: its name, the lines of code shown, the error, the columns of what it left."""
    lines = len(cell.shown_lines) + (cell.error is not None)
    return CELL.head + lines * CELL.line + (CELL.ports if cell.frames else 0) + CELL_FOOT
