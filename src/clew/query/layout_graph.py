"""The graph of a run: files and frames, and between them the cells that turn one into the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from clew.query.layout import Size, Spacing, layered, neighbourhood
from clew.query.run_page_model import CardMetrics, GraphNode, GraphView, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clew.query.run_page_model import PageOperation, PageState

NODE_WIDTH = 184
# Rows are slots: the page fills them with the columns of the path it shows, so a node never grows and nothing moves.
CARD = CardMetrics(head=46, row=22, max_rows=5)
CARD_FOOT = 6
CELL_NODE = Size(width=136, height=48)
SPACING = Spacing(layer=48, node=26)

# React Flow draws 400 nodes at once without a long frame; a session of more is shown around its focus.
MAX_NODES = 400
# Each is small, but all of them travel with the page.
MAX_HOP_VIEWS = 60


def session_links(states: Sequence[PageState], operations: Sequence[PageOperation]) -> tuple[Link, ...]:
    """An arrow for each state that enters or leaves a cell; what a cell makes and uses up itself is left out."""
    pairs: dict[tuple[str, str], int] = {}
    for operation in operations:
        if operation.cell is not None:
            cell = f"cell:{operation.cell}"
            pairs |= {
                (f"state:{i}", cell): i for i in operation.inputs if _cell_of(states[i], operations) != operation.cell
            }
            pairs |= {(cell, f"state:{i}"): i for i in operation.outputs}
    leaving = {source for source, target in pairs if target.startswith("cell:")} | _last_states(states)
    return tuple(Link(s, t, (i,)) for (s, t), i in pairs.items() if s.startswith("state:") or t in leaving)


def _cell_of(state: PageState, operations: Sequence[PageOperation]) -> int | None:
    return None if state.producer is None else operations[state.producer].cell


def _last_states(states: Sequence[PageState]) -> set[str]:
    """What each dataset ended as, save for frames that no variable holds."""
    last = {(state.namespace, state.name): place for place, state in enumerate(states)}
    return {f"state:{place}" for place in last.values() if not is_unnamed(states[place])}


def is_unnamed(state: PageState) -> bool:
    """Whether a frame was never held by a variable: it then bears the name of the operation that made it."""
    return state.kind == "frame" and state.name.count("/") > 1


def graph_views(states: Sequence[PageState], links: Sequence[Link], focus: int | None) -> tuple[GraphView, ...]:
    """The session, and one hop each way of each dataset: of the focus first, as far as there is room."""
    nodes = list(dict.fromkeys(end for link in links for end in (link.source, link.target)))
    pairs = [(link.source, link.target) for link in links]
    near = nodes if len(nodes) <= MAX_NODES else _nearest(f"state:{focus}", nodes, pairs)
    centres = sorted((n for n in nodes if n.startswith("state:")), key=lambda n: n != f"state:{focus}")[:MAX_HOP_VIEWS]
    # One hop between datasets is two arrows: one to the cell, one from it.
    around = [_view(_place(centre), neighbourhood(centre, pairs, 2), states, links, len(nodes)) for centre in centres]
    return (_view(None, near, states, links, len(nodes)), *around)


def _nearest(centre: str, nodes: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    known = set(nodes)
    found = [node for node in neighbourhood(centre, pairs, len(nodes)) if node in known]
    return list(dict.fromkeys([*found, *reversed(nodes)]))[:MAX_NODES]


def _place(name: str) -> int:
    return int(name.removeprefix("state:"))


def _view(
    centre: int | None, names: Sequence[str], states: Sequence[PageState], links: Sequence[Link], total: int
) -> GraphView:
    shown = set(names)
    inside = tuple(link for link in links if link.source in shown and link.target in shown)
    sizes = {name: node_size(name, states) for name in names}
    boxes = layered(sizes, [(link.source, link.target) for link in inside], SPACING)
    up = _hidden(((link.target, link.source) for link in links), shown)
    down = _hidden(((link.source, link.target) for link in links), shown)
    nodes = tuple(GraphNode(name, box, up.get(name, 0), down.get(name, 0)) for name, box in boxes.items())
    scope: Literal["hop", "session"] = "session" if centre is None else "hop"
    return GraphView(scope=scope, centre=centre, nodes=nodes, links=inside, total=total, card=CARD)


def _hidden(pairs: Iterable[tuple[str, str]], shown: set[str]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node, neighbour in dict.fromkeys(pairs):
        if node in shown and neighbour not in shown:
            counts[node] = counts.get(node, 0) + 1
    return counts


def node_size(name: str, states: Sequence[PageState]) -> Size:
    """The room a node takes: a dataset has a slot for each of its first columns."""
    if name.startswith("cell:"):
        return CELL_NODE
    columns = len(states[_place(name)].columns)
    slots = columns if columns <= CARD.max_rows else CARD.max_rows + 1
    return Size(width=NODE_WIDTH, height=CARD.head + slots * CARD.row + (CARD_FOOT if slots else 0))
