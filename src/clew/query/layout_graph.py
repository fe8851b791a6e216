"""Graph of a notebook run: files and frames, connected by cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clew.query.layout import Size, Spacing, compute_layered_layout, nodes_within_hops
from clew.query.run_page_model import CardMetrics, PageGraphNode, PageGraphView, PageLink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clew.query.run_page_model import PageOperation, PageState

NODE_WIDTH = 184
# Rows are slots that the web UI fills with the columns of the selected path, so node sizes never change.
GRAPH_CARD = CardMetrics(head=46, row=22, max_rows=5)
CARD_FOOT = 6
CELL_NODE = Size(width=136, height=48)
SPACING = Spacing(layer=48, node=26)

# React Flow renders 400 nodes without a long frame; larger sessions are shown around the focus.
MAX_NODES = 400
# Each view is small, but all of them are part of the page.
MAX_HOP_VIEWS = 60


def build_session_links(states: Sequence[PageState], operations: Sequence[PageOperation]) -> tuple[PageLink, ...]:
    """Link each state to the cells that read or produce it; states used only inside their cell are omitted."""
    pairs: dict[tuple[str, str], int] = {}
    for operation in operations:
        if operation.cell is not None:
            cell = f"cell:{operation.cell}"
            pairs |= {
                (f"state:{i}", cell): i for i in operation.inputs if _cell_of(states[i], operations) != operation.cell
            }
            pairs |= {(cell, f"state:{i}"): i for i in operation.outputs}
    leaving = {source for source, target in pairs if target.startswith("cell:")} | _final_states(states)
    return tuple(PageLink(s, t, (i,)) for (s, t), i in pairs.items() if s.startswith("state:") or t in leaving)


def _cell_of(state: PageState, operations: Sequence[PageOperation]) -> int | None:
    return None if state.producer is None else operations[state.producer].cell


def _final_states(states: Sequence[PageState]) -> set[str]:
    """Return the last state of each dataset, without intermediate frames."""
    last_positions = {(state.namespace, state.name): position for position, state in enumerate(states)}
    return {f"state:{position}" for position in last_positions.values() if not is_intermediate_state(states[position])}


def is_intermediate_state(state: PageState) -> bool:
    """Return whether a state is a frame that was never assigned to a variable."""
    return state.kind == "frame" and state.name.count("/") > 1


def build_graph_views(
    states: Sequence[PageState], links: Sequence[PageLink], focus: int | None
) -> tuple[PageGraphView, ...]:
    """Build the view of the session, and a one-hop view per dataset (focus first, up to MAX_HOP_VIEWS)."""
    nodes = list(dict.fromkeys(end for link in links for end in (link.source, link.target)))
    pairs = [(link.source, link.target) for link in links]
    session_nodes = nodes if len(nodes) <= MAX_NODES else _nearest(f"state:{focus}", nodes, pairs)
    centres = sorted((n for n in nodes if n.startswith("state:")), key=lambda n: n != f"state:{focus}")[:MAX_HOP_VIEWS]
    # One hop between datasets is two links: to the cell and from it.
    hop_views = [
        _build_view(_state_position(centre), nodes_within_hops(centre, pairs, 2), states, links, len(nodes))
        for centre in centres
    ]
    return (_build_view(None, session_nodes, states, links, len(nodes)), *hop_views)


def _nearest(centre: str, nodes: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    existing = set(nodes)
    reachable = [node for node in nodes_within_hops(centre, pairs, len(nodes)) if node in existing]
    return list(dict.fromkeys([*reachable, *reversed(nodes)]))[:MAX_NODES]


def _state_position(name: str) -> int:
    return int(name.removeprefix("state:"))


def _build_view(
    centre: int | None, names: Sequence[str], states: Sequence[PageState], links: Sequence[PageLink], total: int
) -> PageGraphView:
    shown = set(names)
    inside = tuple(link for link in links if link.source in shown and link.target in shown)
    sizes = {name: measure_node(name, states) for name in names}
    boxes = compute_layered_layout(sizes, [(link.source, link.target) for link in inside], SPACING)
    up = _count_hidden(((link.target, link.source) for link in links), shown)
    down = _count_hidden(((link.source, link.target) for link in links), shown)
    nodes = tuple(PageGraphNode(name, box, up.get(name, 0), down.get(name, 0)) for name, box in boxes.items())
    scope: Literal["hop", "session"] = "session" if centre is None else "hop"
    return PageGraphView(scope=scope, centre=centre, nodes=nodes, links=inside, total=total, card=GRAPH_CARD)


def _count_hidden(pairs: Iterable[tuple[str, str]], shown: set[str]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node, neighbour in dict.fromkeys(pairs):
        if node in shown and neighbour not in shown:
            counts[node] = counts.get(node, 0) + 1
    return counts


def measure_node(name: str, states: Sequence[PageState]) -> Size:
    """Return the size of a node; a dataset has a slot for each of its first columns."""
    if name.startswith("cell:"):
        return CELL_NODE
    columns = len(states[_state_position(name)].columns)
    slots = columns if columns <= GRAPH_CARD.max_rows else GRAPH_CARD.max_rows + 1
    return Size(width=NODE_WIDTH, height=GRAPH_CARD.head + slots * GRAPH_CARD.row + (CARD_FOOT if slots else 0))
