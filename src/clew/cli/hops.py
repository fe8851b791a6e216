"""A column's ancestry as a tree of text: it grows sideways only where several columns were joined into one."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from clew.query.model import ColumnEdge, Hop
from clew.query.names import short_name
from clew.query.steps import Step, influence_words, steps

_THREAD = "bold medium_purple1"
_WIDEST_CODE = 110


def tree(hop: Hop) -> Tree:
    """The column at the root, what it was made from below, each hop with its cell, line and code."""
    root = Tree(Text.assemble(_column(hop), (f"  {_where(hop)}", "dim")), guide_style="medium_purple4")
    _grow(root, hop)
    return root


def _grow(branch: Tree, hop: Hop) -> None:
    found = steps(hop)
    is_chain = sum(len(step.direct) for step in found) == 1
    for step in found:
        if step.sources[0].operation is not None:
            branch.add(_operation(step))
        elif step.influences:
            branch.add(_influences(step))
        for source in step.direct:
            grown = branch.add(_source(source))
            _grow(branch if is_chain else grown, source)


def _operation(step: Step) -> Text:
    first = step.sources[0]
    code = "" if first.operation is None else " ".join(first.operation.code.split())
    code = code if len(code) <= _WIDEST_CODE else f"{code[: _WIDEST_CODE - 1]}…"
    line = Text.assemble((_place(first), "cyan"), "  ", (code, "italic"))
    return Text.assemble(line, "  ", _influences(step)) if step.influences else line


def _place(hop: Hop) -> str:
    cell = "" if hop.cell is None else f"cell {_cell_name(hop)}"
    line = "" if hop.operation is None or hop.operation.line is None else f", line {hop.operation.line}"
    return f"{cell}{line}:"


def _cell_name(hop: Hop) -> str:
    if hop.cell is None:
        return ""
    number = "" if hop.cell.index is None else f"{hop.cell.index} "
    return f"{number}{hop.cell.name or hop.cell.cell_id}"


def _source(hop: Hop) -> Text:
    how = "" if hop.edge is None else _how(hop.edge)
    seen = ", shown above" if hop.is_repeated else ""
    return Text.assemble(_column(hop), (f"  {how}{seen}", "dim"))


def _influences(step: Step) -> Text:
    by_kind: dict[str, list[str]] = {}
    for hop in step.influences:
        by_kind.setdefault(influence_words(hop), []).append(f"{short_name(hop.dataset)}.{hop.column}")
    parts = [f"{kind} {', '.join(dict.fromkeys(names))}" for kind, names in by_kind.items()]
    return Text("; ".join(parts), style="yellow")


def _column(hop: Hop) -> Text:
    return Text.assemble((short_name(hop.dataset), "bold"), ".", (hop.column or "*", _THREAD))


def _how(edge: ColumnEdge) -> str:
    flag = "" if edge.flag is None else f", {edge.flag}"
    return f"{(edge.subtype or edge.type).lower()}{flag}"


def _where(hop: Hop) -> str:
    return hop.dataset.name if hop.dataset.namespace == "file" else hop.dataset.namespace
