"""Render lineage, paths, impact, search results and diffs as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from clew.cli.output import format_count, format_duration, new_table
from clew.query.exports import node_label
from clew.query.model import LineageStep, shorten
from clew.query.names import full_name, short_name
from clew.query.upstream import OperationStep, group_by_operation

if TYPE_CHECKING:
    from clew.query.diff import CodeDiff, DatasetDiff, IoDiff, RunDiff, ValueChange, VersionDiff
    from clew.query.lineage import ColumnPath, ImpactedDataset, LineageEdge, LineageNode, LineageResult
    from clew.query.lineage import PathResult as NodePath
    from clew.query.search import Hits


_STYLES = {"dataset": "bold", "column": "bold medium_purple1", "job": "cyan", "run": "green"}
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
    line = Text.assemble((_location(first), "cyan"), "  ", (shorten(code, _MAX_CODE_WIDTH), "italic"))
    return Text.assemble(line, "  ", _indirect_line(operation)) if operation.indirect else line


def _location(step: LineageStep) -> str:
    cell = "" if step.cell is None else f"cell {step.cell.label}"
    line = "" if step.operation is None or step.operation.line is None else f", line {step.operation.line}"
    return f"{cell}{line}:"


def _source_line(step: LineageStep) -> Text:
    transformation = "" if step.edge is None else step.edge.label
    repeated = ", shown above" if step.is_repeated else ""
    return Text.assemble(_column_name(step), (f"  {transformation}{repeated}", "dim"))


def _indirect_line(operation: OperationStep) -> Text:
    by_phrase: dict[str, list[str]] = {}
    for step in operation.indirect:
        by_phrase.setdefault(step.indirect_phrase, []).append(f"{short_name(step.dataset)}.{step.column}")
    parts = [f"{phrase} {', '.join(dict.fromkeys(names))}" for phrase, names in by_phrase.items()]
    return Text("; ".join(parts), style="yellow")


def _column_name(step: LineageStep) -> Text:
    return Text.assemble((short_name(step.dataset), _STYLES["dataset"]), ".", (step.column or "*", _STYLES["column"]))


def _dataset_location(step: LineageStep) -> str:
    return step.dataset.name if step.dataset.namespace == "file" else step.dataset.namespace


_MAX_CODE_LINES = 40


def lineage_tree(result: LineageResult) -> Tree:
    """Render lineage as a tree from the start node; nodes that occur again are marked."""
    nodes = {node.id: node for node in result.nodes}
    is_forward = result.direction == "downstream"
    neighbors: dict[str, list[tuple[str, LineageEdge]]] = {}
    for edge in result.edges:
        near, far = (edge.start, edge.end) if is_forward else (edge.end, edge.start)
        neighbors.setdefault(near, []).append((far, edge))
    root = Tree(_node_text(nodes[result.start], None), guide_style="medium_purple4")
    _add_neighbors(root, result.start, nodes, neighbors, is_forward=is_forward)
    return root


def _add_neighbors(
    root: Tree,
    start: str,
    nodes: dict[str, LineageNode],
    neighbors: dict[str, list[tuple[str, LineageEdge]]],
    *,
    is_forward: bool,
) -> None:
    # Breadth first, so that a node appears at its shortest distance; iterative, because chains may be long.
    shown, pending = {start}, [(root, start)]
    for branch, near in pending:
        for far, edge in neighbors.get(near, ()):
            if abs(nodes[far].distance) <= abs(nodes[near].distance):
                continue
            is_new = far not in shown
            hidden = nodes[far].hidden_downstream if is_forward else nodes[far].hidden_upstream
            more = f"{hidden} more" if hidden else ""
            child = branch.add(_node_text(nodes[far], edge, more if is_new else "shown above"))
            if is_new:
                shown.add(far)
                pending.append((child, far))


def lineage_summary(result: LineageResult) -> str:
    """Summarize the nodes of a lineage result."""
    kinds = {"dataset": 0, "column": 0, "job": 0, "run": 0}
    for node in result.nodes[1:]:
        kinds[node.kind] += 1
    counts = ", ".join(format_count(count, kind) for kind, count in kinds.items() if count) or "Nothing"
    return f"{counts} {result.direction}{'; truncated, raise --limit' if result.is_truncated else ''}."


def path_text(result: NodePath) -> Iterator[Text]:
    """Render one node per line, with the edge that leads to it."""
    for node, edge in zip(result.nodes, (None, *result.edges), strict=True):
        yield _node_text(node, edge)


def column_path_text(result: ColumnPath) -> Iterator[str]:
    """Render one column per line, with its transformation and job."""
    yield result.start.partition(":")[2]
    for edge in result.edges:
        job = "" if edge.job is None else f" by {edge.job.partition(':')[2]}"
        yield f"→ {edge.end.partition(':')[2]}  {(edge.subtype or edge.kind).lower()}{job}"


def impact_table(datasets: Iterable[ImpactedDataset]) -> Table:
    """Return a table with a row per affected dataset."""
    table = new_table("dataset", "hops", "dependency", "columns", "jobs", right={"hops"})
    for affected in datasets:
        columns = ", ".join(node.column or "*" for node in affected.columns)
        jobs = ", ".join(job.rsplit(":", 1)[-1] for job in affected.jobs)
        dependency = Text(
            "direct" if affected.dependency_type == "DIRECT" else "indirect",
            style="red" if affected.dependency_type == "DIRECT" else "yellow",
        )
        table.add_row(full_name(affected.dataset), str(affected.distance), dependency, columns, jobs)
    return table


def hit_table(result: Hits) -> Table:
    """Return a table with a row per hit."""
    table = new_table()
    for hit in result.hits:
        table.add_row(
            Text(hit.kind, style=_STYLES.get(hit.kind, "")), hit.namespace, hit.name, " ".join(hit.snippet.split())
        )
    return table


def run_diff_text(diff: RunDiff) -> Iterator[RenderableType]:
    """Render the differences between two runs."""
    yield from _value_changes({"job": diff.job, "state": diff.state, "error": diff.error, "version": diff.job_version})
    if diff.duration_ms is not None:
        yield f"duration: {format_duration(diff.duration_ms.left)} → {format_duration(diff.duration_ms.right)}"
    yield from _io_changes("reads", diff.inputs)
    yield from _io_changes("writes", diff.outputs)
    for code in diff.code:
        yield from _code_changes(code)


def version_diff_text(diff: VersionDiff) -> Iterator[RenderableType]:
    """Render the differences between two versions of a dataset."""
    yield f"{full_name(diff.dataset)}: run {diff.runs.left} → run {diff.runs.right}"
    yield from _value_changes({"written by": diff.written_by})
    yield from _dataset_changes(diff.difference)


def _value_changes(changes: dict[str, ValueChange[str] | ValueChange[str | None] | None]) -> Iterator[str]:
    for name, change in changes.items():
        if change is not None:
            yield f"{name}: {change.left} → {change.right}"


def _io_changes(verb: str, diff: IoDiff) -> Iterator[RenderableType]:
    for sign, style, datasets in (("+", "green", diff.added), ("-", "red", diff.removed)):
        yield from (Text(f"{sign} {verb} {short_name(dataset)}", style=style) for dataset in datasets)
    for change in diff.changed:
        yield f"{verb} {short_name(change.dataset)}:"
        yield from _dataset_changes(change)


def _dataset_changes(diff: DatasetDiff) -> Iterator[RenderableType]:
    if diff.version is not None:
        yield f"  version {diff.version.left} → {diff.version.right}"
    if diff.row_count is not None:
        yield f"  rows {diff.row_count.left} → {diff.row_count.right}"
    if diff.schema is not None:
        yield from (Text(f"  + column {name}", style="green") for name in diff.schema.added)
        yield from (Text(f"  - column {name}", style="red") for name in diff.schema.removed)
        yield from (f"  column {column.name}: {column.left} → {column.right}" for column in diff.schema.retyped)
    if diff.lineage is not None:
        for sign, style, edges in (("+", "green", diff.lineage.added), ("-", "red", diff.lineage.removed)):
            for edge in edges:
                source = f"{short_name(edge.source)}.{edge.source_column}"
                text = f"  {sign} {edge.column or '*'} ← {source} {edge.subtype.lower()}"
                yield Text(text, style=style)


def _code_changes(diff: CodeDiff) -> Iterator[RenderableType]:
    lines = diff.text.splitlines()
    yield Text(f"code of {diff.name}:", style="bold")
    for line in lines[:_MAX_CODE_LINES]:
        style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "")
        yield Text(f"  {line}", style=style)
    if len(lines) > _MAX_CODE_LINES:
        yield f"  … {len(lines) - _MAX_CODE_LINES} more lines; use --json for all"


def _node_text(node: LineageNode, edge: LineageEdge | None, remark: str = "") -> Text:
    transformation = "" if edge is None else (edge.subtype or edge.kind).lower()
    details = ", ".join(part for part in (transformation, remark) if part)
    return Text.assemble(
        (node_label(node), _STYLES[node.kind]),
        (f"  {node.kind} {node.namespace}", "dim"),
        (f"  {details}" if details else "", "dim"),
    )
