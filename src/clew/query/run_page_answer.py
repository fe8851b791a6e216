"""Explanation of a column: a summary sentence and the upstream tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from clew.query.model import LineageStep
from clew.query.run_page_model import ColumnExplanation, ExplanationStep, PageEdge, Port, SentencePart
from clew.query.run_page_states import RunStates, display_name
from clew.query.steps import DEFAULT_INDIRECT_PHRASE, INDIRECT_PHRASES

# Limits of the sentence; the rest is counted, and the tree has everything.
_MAX_CODES = 3
_MAX_SOURCES = 3


def explain_column(root: LineageStep, port: Port, run_states: RunStates, cells: Mapping[str, int]) -> ColumnExplanation:
    """Explain the column at `port` with upstream tree `root`; `cells` maps an execution id to its position."""
    return ColumnExplanation(port=port, sentence=_sentence(run_states, port), tree=_explanation_tree(root, cells))


def _explanation_tree(step: LineageStep, cells: Mapping[str, int]) -> ExplanationStep:
    edge, operation = step.edge, step.operation
    return ExplanationStep(
        label=display_name(step.dataset),
        version=step.version,
        column=step.column,
        type=edge.type if edge else None,
        subtype=edge.subtype if edge else None,
        flag=edge.flag if edge else None,
        cell=cells.get(step.cell.execution_id) if step.cell else None,
        line=operation.line if operation else None,
        code=operation.code if operation else None,
        upstream=tuple(_explanation_tree(child, cells) for child in sorted(step.upstream, key=_step_order)),
        is_repeated=step.is_repeated,
    )


def _step_order(step: LineageStep) -> tuple[bool, str, str]:
    return step.edge is not None and step.edge.type == "INDIRECT", display_name(step.dataset), step.column or ""


class _Step(Struct, frozen=True):
    """A visited column: its edge, and the phrase for an INDIRECT dependency (None: DIRECT)."""

    port: Port
    edge: PageEdge
    phrase: str | None
    is_leaf: bool


def _sentence(run_states: RunStates, root: Port) -> tuple[SentencePart, ...]:
    target = SentencePart(
        kind="target", text=_column_label(run_states.states[root.state].label, [root.column or "all columns"])
    )
    steps = list(_steps(run_states, root))
    if not steps:
        is_external = run_states.states[root.state].producer is None
        text = "comes from outside this run" if is_external else "no source was recorded"
        return (target, SentencePart(kind="summary", text=text))
    return (
        target,
        *_code_parts(run_states, steps),
        *_source_parts(run_states, steps),
        *_indirect_parts(run_states, steps),
        _summary_part(steps),
    )


def _steps(run_states: RunStates, root: Port) -> Iterator[_Step]:
    """Yield each upstream column once per kind of dependency, nearest first."""
    upstream = _UpstreamEdges(run_states)
    seen: set[tuple[Port, str | None, int | None]] = set()
    queue: list[tuple[Port, str | None]] = [(root, None)]
    for port, phrase in queue:
        for edge in upstream(port):
            edge_phrase = _indirect_phrase(edge)
            key = (edge.source, phrase or edge_phrase, edge.operation)
            # INDIRECT after INDIRECT is not followed.
            if key in seen or (phrase is not None and edge_phrase is not None):
                continue
            seen.add(key)
            yield _Step(port=edge.source, edge=edge, phrase=phrase or edge_phrase, is_leaf=not upstream(edge.source))
            queue.append((edge.source, phrase or edge_phrase))


class _UpstreamEdges:
    """Incoming edges of a column, DIRECT first, including those of the whole dataset."""

    def __init__(self, run_states: RunStates) -> None:
        self._labels = [state.label for state in run_states.states]
        self._into_port: defaultdict[Port, list[PageEdge]] = defaultdict(list)
        self._into_state: defaultdict[int, list[PageEdge]] = defaultdict(list)
        for edge in run_states.edges:
            self._into_port[edge.target].append(edge)
            self._into_state[edge.target.state].append(edge)

    def __call__(self, port: Port) -> list[PageEdge]:
        if port.column is None:
            edges = self._into_state.get(port.state, [])
        else:
            edges = [*self._into_port.get(port, ()), *self._into_port.get(Port(port.state, None), ())]
        return sorted(edges, key=self._order)

    def _order(self, edge: PageEdge) -> tuple[bool, str, str]:
        return edge.type == "INDIRECT", self._labels[edge.source.state], edge.source.column or ""


def _indirect_phrase(edge: PageEdge) -> str | None:
    return None if edge.type == "DIRECT" else INDIRECT_PHRASES.get(edge.subtype or "", DEFAULT_INDIRECT_PHRASE)


def _code_parts(run_states: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    """List the operations that transformed values, last one first."""
    edges = [step.edge for step in steps if step.phrase is None and step.edge.subtype not in {None, "IDENTITY"}]
    positions = list(dict.fromkeys(edge.operation for edge in edges if edge.operation is not None))
    rest = len(positions) - _MAX_CODES
    more = [SentencePart(kind="code", text=f"{rest} more")] if rest > 0 else []
    return [_code_part(run_states, position) for position in positions[:_MAX_CODES]] + more


def _code_part(run_states: RunStates, position: int) -> SentencePart:
    operation = run_states.operations[position]
    return SentencePart(kind="code", text=operation.code, cell=operation.cell, line=operation.line)


def _source_parts(run_states: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    texts = _group_by_dataset(run_states, [step.port for step in steps if step.phrase is None and step.is_leaf])
    return [SentencePart(kind="source", text=text) for text in texts]


def _indirect_parts(run_states: RunStates, steps: Iterable[_Step]) -> list[SentencePart]:
    ports: defaultdict[str, list[Port]] = defaultdict(list)
    for step in steps:
        if step.phrase is not None and step.is_leaf:
            ports[step.phrase].append(step.port)
    texts = [f"{phrase} {', '.join(_group_by_dataset(run_states, ports[phrase]))}" for phrase in sorted(ports)]
    return [SentencePart(kind="indirect", text=text) for text in texts]


def _group_by_dataset(run_states: RunStates, ports: Iterable[Port]) -> list[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for port in ports:
        columns[run_states.states[port.state].label].add(port.column or "unknown column")
    texts = [_column_label(label, sorted(columns[label])) for label in sorted(columns)]
    rest = len(texts) - _MAX_SOURCES
    return texts if rest <= 0 else [*texts[:_MAX_SOURCES], f"{rest} more"]


def _column_label(label: str, columns: Iterable[str]) -> str:
    return f"{label} · {', '.join(columns)}"


def _summary_part(steps: Iterable[_Step]) -> SentencePart:
    edges = [step.edge for step in steps]
    count = len({edge.operation for edge in edges if edge.operation is not None})
    inferred = len({edge.operation for edge in edges if edge.flag})
    accuracy = f"{inferred} inferred" if inferred else "all exact"
    return SentencePart(kind="summary", text=f"{count} {'step' if count == 1 else 'steps'}, {accuracy}")
