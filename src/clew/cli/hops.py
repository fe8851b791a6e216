"""Render the upstream lineage of a column as a tree; it branches where several columns are combined."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from clew.query.model import ColumnLineageEdge, LineageStep
from clew.query.names import short_name
from clew.query.steps import OperationStep, group_by_operation, indirect_phrase

_COLUMN_STYLE = "bold medium_purple1"
_MAX_CODE_WIDTH = 110


def upstream_tree(step: LineageStep) -> Tree:
    """Return a tree with the column at the root and its sources below, each step with cell, line and code."""
    root = Tree(
        Text.assemble(_column_name(step), (f"  {_dataset_location(step)}", "dim")), guide_style="medium_purple4"
    )
    _add_steps(root, step)
    return root


def _add_steps(branch: Tree, step: LineageStep) -> None:
    operations = group_by_operation(step)
    is_chain = sum(len(operation.direct) for operation in operations) == 1
    for operation in operations:
        if operation.sources[0].operation is not None:
            branch.add(_operation_line(operation))
        elif operation.indirect:
            branch.add(_indirect_line(operation))
        for source in operation.direct:
            child = branch.add(_source_line(source))
            _add_steps(branch if is_chain else child, source)


def _operation_line(operation: OperationStep) -> Text:
    first = operation.sources[0]
    code = "" if first.operation is None else " ".join(first.operation.code.split())
    code = code if len(code) <= _MAX_CODE_WIDTH else f"{code[: _MAX_CODE_WIDTH - 1]}…"
    line = Text.assemble((_location(first), "cyan"), "  ", (code, "italic"))
    return Text.assemble(line, "  ", _indirect_line(operation)) if operation.indirect else line


def _location(step: LineageStep) -> str:
    cell = "" if step.cell is None else f"cell {_cell_name(step)}"
    line = "" if step.operation is None or step.operation.line is None else f", line {step.operation.line}"
    return f"{cell}{line}:"


def _cell_name(step: LineageStep) -> str:
    if step.cell is None:
        return ""
    number = "" if step.cell.index is None else f"{step.cell.index} "
    return f"{number}{step.cell.name or step.cell.cell_id}"


def _source_line(step: LineageStep) -> Text:
    transformation = "" if step.edge is None else _transformation(step.edge)
    repeated = ", shown above" if step.is_repeated else ""
    return Text.assemble(_column_name(step), (f"  {transformation}{repeated}", "dim"))


def _indirect_line(operation: OperationStep) -> Text:
    by_phrase: dict[str, list[str]] = {}
    for step in operation.indirect:
        by_phrase.setdefault(indirect_phrase(step), []).append(f"{short_name(step.dataset)}.{step.column}")
    parts = [f"{phrase} {', '.join(dict.fromkeys(names))}" for phrase, names in by_phrase.items()]
    return Text("; ".join(parts), style="yellow")


def _column_name(step: LineageStep) -> Text:
    return Text.assemble((short_name(step.dataset), "bold"), ".", (step.column or "*", _COLUMN_STYLE))


def _transformation(edge: ColumnLineageEdge) -> str:
    flag = "" if edge.flag is None else f", {edge.flag}"
    return f"{(edge.subtype or edge.type).lower()}{flag}"


def _dataset_location(step: LineageStep) -> str:
    return step.dataset.name if step.dataset.namespace == "file" else step.dataset.namespace
