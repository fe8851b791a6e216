"""Where a column comes from, in a sentence and as a tree: the words above the picture, and its twin in text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from clew.query.model import Hop
from clew.query.run_page_model import Answer, AnswerHop, PageEdge, Port, SentencePart
from clew.query.run_page_states import RunStates, dataset_label
from clew.query.steps import INFLUENCES, SOME_INFLUENCE

# The sentence must stay one: what does not fit is counted, and the tree has it all.
_MAX_CODES = 3
_MAX_SOURCES = 3


def column_answer(root: Hop, port: Port, whole: RunStates, cells: Mapping[str, int]) -> Answer:
    """The answer for the column at `port`, whose tree is `root`; `cells` gives the place of each execution."""
    return Answer(port=port, sentence=_sentence(whole, port), tree=_tree(root, cells))


def _tree(hop: Hop, cells: Mapping[str, int]) -> AnswerHop:
    edge, operation = hop.edge, hop.operation
    return AnswerHop(
        label=dataset_label(hop.dataset),
        version=hop.version,
        column=hop.column,
        type=edge.type if edge else None,
        subtype=edge.subtype if edge else None,
        flag=edge.flag if edge else None,
        cell=cells.get(hop.cell.execution_id) if hop.cell else None,
        line=operation.line if operation else None,
        code=operation.code if operation else None,
        upstream=tuple(_tree(child, cells) for child in sorted(hop.upstream, key=_hop_order)),
        is_repeated=hop.is_repeated,
    )


def _hop_order(hop: Hop) -> tuple[bool, str, str]:
    return hop.edge is not None and hop.edge.type == "INDIRECT", dataset_label(hop.dataset), hop.column or ""


class _Step(Struct, frozen=True):
    """A column on the way: the edge that led to it, and how it sways the first one (None: it makes it)."""

    port: Port
    edge: PageEdge
    verb: str | None
    is_leaf: bool


def _sentence(whole: RunStates, root: Port) -> tuple[SentencePart, ...]:
    target = SentencePart(kind="target", text=_dotted(whole.states[root.state].label, [root.column or "all columns"]))
    steps = list(_steps(whole, root))
    if not steps:
        is_outside = whole.states[root.state].producer is None
        text = "comes from outside this run" if is_outside else "no source was recorded"
        return (target, SentencePart(kind="note", text=text))
    return (target, *_codes(whole, steps), *_sources(whole, steps), *_influences(whole, steps), _note(steps))


def _steps(whole: RunStates, root: Port) -> Iterator[_Step]:
    """Every column on the way once for each way of influence, nearest first."""
    upstream = _Upstream(whole)
    seen: set[tuple[Port, str | None, int | None]] = set()
    queue: list[tuple[Port, str | None]] = [(root, None)]
    for port, verb in queue:
        for edge in upstream(port):
            own = _verb(edge)
            key = (edge.source, verb or own, edge.operation)
            # What sways a column that only sways ours is two steps removed, and left out.
            if key in seen or (verb is not None and own is not None):
                continue
            seen.add(key)
            yield _Step(port=edge.source, edge=edge, verb=verb or own, is_leaf=not upstream(edge.source))
            queue.append((edge.source, verb or own))


class _Upstream:
    """The edges into a column, DIRECT first; what holds for the whole dataset holds for each of its columns."""

    def __init__(self, whole: RunStates) -> None:
        self._labels = [state.label for state in whole.states]
        self._into_port: defaultdict[Port, list[PageEdge]] = defaultdict(list)
        self._into_state: defaultdict[int, list[PageEdge]] = defaultdict(list)
        for edge in whole.edges:
            self._into_port[edge.target].append(edge)
            self._into_state[edge.target.state].append(edge)

    def __call__(self, port: Port) -> list[PageEdge]:
        if port.column is None:
            found = self._into_state.get(port.state, [])
        else:
            found = [*self._into_port.get(port, ()), *self._into_port.get(Port(port.state, None), ())]
        return sorted(found, key=self._order)

    def _order(self, edge: PageEdge) -> tuple[bool, str, str]:
        return edge.type == "INDIRECT", self._labels[edge.source.state], edge.source.column or ""


def _verb(edge: PageEdge) -> str | None:
    return None if edge.type == "DIRECT" else INFLUENCES.get(edge.subtype or "", SOME_INFLUENCE)


def _codes(whole: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    """The operations that made new values on the way, the last one first."""
    made = [step.edge for step in steps if step.verb is None and step.edge.subtype not in {None, "IDENTITY"}]
    places = list(dict.fromkeys(edge.operation for edge in made if edge.operation is not None))
    rest = len(places) - _MAX_CODES
    more = [SentencePart(kind="code", text=f"{rest} more")] if rest > 0 else []
    return [_code(whole, place) for place in places[:_MAX_CODES]] + more


def _code(whole: RunStates, place: int) -> SentencePart:
    operation = whole.operations[place]
    return SentencePart(kind="code", text=operation.code, cell=operation.cell, line=operation.line)


def _sources(whole: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    texts = _grouped(whole, [step.port for step in steps if step.verb is None and step.is_leaf])
    return [SentencePart(kind="source", text=text) for text in texts]


def _influences(whole: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    ports: defaultdict[str, list[Port]] = defaultdict(list)
    for step in steps:
        if step.verb is not None and step.is_leaf:
            ports[step.verb].append(step.port)
    texts = [f"{verb} {', '.join(_grouped(whole, ports[verb]))}" for verb in sorted(ports)]
    return [SentencePart(kind="influence", text=text) for text in texts]


def _grouped(whole: RunStates, ports: Iterable[Port]) -> list[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for port in ports:
        columns[whole.states[port.state].label].add(port.column or "unknown column")
    texts = [_dotted(label, sorted(columns[label])) for label in sorted(columns)]
    rest = len(texts) - _MAX_SOURCES
    return texts if rest <= 0 else [*texts[:_MAX_SOURCES], f"{rest} more"]


def _dotted(label: str, columns: Iterable[str]) -> str:
    return f"{label} · {', '.join(columns)}"


def _note(steps: Iterable[_Step]) -> SentencePart:
    edges = [step.edge for step in steps]
    count = len({edge.operation for edge in edges if edge.operation is not None})
    guessed = len({edge.operation for edge in edges if edge.flag})
    exact = f"{guessed} guessed" if guessed else "all exact"
    return SentencePart(kind="note", text=f"{count} {'step' if count == 1 else 'steps'}, {exact}")
