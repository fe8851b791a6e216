"""Layout of the run overview in three lanes: inputs on the left, cells in run order, outputs on the right.

The web UI uses these sizes; it only widens the middle lane to the window.
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

# A longer column list is truncated; an extra row shows the number of columns.
LANE_CARD = CardMetrics(head=54, row=24, max_rows=8)
CARD_FOOT = 6
CELL = CellMetrics(head=36, line=18, ports=30)
CELL_FOOT = 12
# Lines of code shown in a collapsed cell.
MAX_LINES = 5


def compute_lane_boxes(
    states: Sequence[PageState],
    cells: Sequence[PageCell],
    reads: Iterable[int],
    shown_cells: Iterable[int],
    writes: Iterable[int],
) -> dict[str, Box]:
    """Compute the box of each card in the three lanes."""
    lanes = [
        (0.0, READS_WIDTH, {f"state:{i}": card_height(states[i]) for i in reads}),
        (READS_WIDTH + GUTTER, CELLS_WIDTH, {f"cell:{i}": cell_height(cells[i]) for i in shown_cells}),
        (READS_WIDTH + CELLS_WIDTH + 2 * GUTTER, WRITES_WIDTH, {f"state:{i}": card_height(states[i]) for i in writes}),
    ]
    boxes: dict[str, Box] = {}
    for x, width, heights in lanes:
        # A file that is read and then overwritten is two states, so no card is in two lanes.
        boxes |= _stack(x, width, heights)
    return boxes


def _stack(x: float, width: float, heights: Mapping[str, float]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    y = 0.0
    for name, height in heights.items():
        boxes[name] = Box(x=x, y=y, width=width, height=height)
        y += height + GAP
    return boxes


def measure_extent(boxes: Iterable[Box]) -> tuple[float, float]:
    """Return the total width and height."""
    placed = list(boxes)
    width = READS_WIDTH + CELLS_WIDTH + WRITES_WIDTH + 2 * GUTTER
    return width, max((box.bottom for box in placed), default=0.0)


def card_height(state: PageState) -> float:
    """Return the height of a dataset card: title and one row per visible column."""
    columns = len(state.columns)
    rows = columns if columns <= LANE_CARD.max_rows else LANE_CARD.max_rows + 1
    return LANE_CARD.head + rows * LANE_CARD.row + (CARD_FOOT if rows else 0)


def cell_height(cell: PageCell) -> float:
    """Return the height of a cell card: title, visible lines of code, error, columns of its frames."""
    lines = len(cell.shown_lines) + (cell.error is not None)
    return CELL.head + lines * CELL.line + (CELL.ports if cell.frames else 0) + CELL_FOOT
