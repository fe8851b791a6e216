"""Answers of the graph as text: trees, chains and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from clew.cli.figures import counted, duration
from clew.query.drawings import label
from clew.query.names import full_name

if TYPE_CHECKING:
    from clew.query.diff import Change, CodeDiff, DatasetDiff, IoDiff, RunDiff, VersionDiff
    from clew.query.graph_answers import ColumnPath
    from clew.query.lineage import Impact, Lineage, LineageEdge, LineageNode
    from clew.query.lineage import Path as NodePath
    from clew.query.model import Dataset
    from clew.query.search.hits import Hits

_STYLES = {"dataset": "bold", "column": "bold medium_purple1", "job": "cyan", "run": "green"}
_MOST_CODE_LINES = 40


def walk_tree(found: Lineage) -> Tree:
    """The start at the root; below each node those that are one hop further, and what is shown already is marked."""
    nodes = {node.id: node for node in found.nodes}
    is_forward = found.direction == "downstream"
    beyond: dict[str, list[tuple[str, LineageEdge]]] = {}
    for edge in found.edges:
        near, far = (edge.start, edge.end) if is_forward else (edge.end, edge.start)
        beyond.setdefault(near, []).append((far, edge))
    root = Tree(_node(nodes[found.start], None), guide_style="medium_purple4")
    _grow(root, found.start, nodes, beyond, is_forward=is_forward)
    return root


def _grow(
    root: Tree,
    start: str,
    nodes: dict[str, LineageNode],
    beyond: dict[str, list[tuple[str, LineageEdge]]],
    *,
    is_forward: bool,
) -> None:
    # Breadth first, so that a node stands where it is nearest; and without recursion, a chain may be long.
    shown, pending = {start}, [(root, start)]
    for branch, near in pending:
        for far, edge in beyond.get(near, ()):
            if abs(nodes[far].distance) <= abs(nodes[near].distance):
                continue
            is_new = far not in shown
            hidden = nodes[far].hidden_downstream if is_forward else nodes[far].hidden_upstream
            more = f"{hidden} more beyond" if hidden else ""
            grown = branch.add(_node(nodes[far], edge, more if is_new else "shown elsewhere"))
            if is_new:
                shown.add(far)
                pending.append((grown, far))


def walk_summary(found: Lineage) -> str:
    """How much was found."""
    kinds = {"dataset": 0, "column": 0, "job": 0, "run": 0}
    for node in found.nodes[1:]:
        kinds[node.kind] += 1
    told = ", ".join(counted(count, kind) for kind, count in kinds.items() if count) or "Nothing"
    return f"{told} {found.direction}{'; there is more: raise --limit' if found.is_cut else ''}."


def path_text(found: NodePath) -> Iterator[Text]:
    """One node a line, and how it leads to the next."""
    for node, edge in zip(found.nodes, (None, *found.edges), strict=True):
        yield _node(node, edge)


def column_path_text(found: ColumnPath) -> Iterator[str]:
    """One column a line, and what the job did with it."""
    yield found.start.partition(":")[2]
    for edge in found.edges:
        made = "" if edge.job is None else f" by {edge.job.partition(':')[2]}"
        yield f"→ {edge.end.partition(':')[2]}  {(edge.subtype or edge.kind).lower()}{made}"


def impact_table(found: Impact) -> Table:
    """A line for each dataset that would be reached."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("dataset", "hops", "how", "columns", "jobs"):
        table.add_column(title, justify="right" if title == "hops" else "left")
    for one in found.affected:
        columns = ", ".join(node.column or "*" for node in one.columns)
        jobs = ", ".join(job.rsplit(":", 1)[-1] for job in one.jobs)
        how = Text("values" if one.how == "DIRECT" else "a say", style="red" if one.how == "DIRECT" else "yellow")
        table.add_row(full_name(one.dataset), str(one.distance), how, columns, jobs)
    return table


def hit_table(found: Hits) -> Table:
    """A line for each hit."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for hit in found.hits:
        table.add_row(
            Text(hit.kind, style=_STYLES.get(hit.kind, "")), hit.namespace, hit.name, " ".join(hit.snippet.split())
        )
    return table


def run_diff_text(found: RunDiff) -> Iterator[RenderableType]:
    """What differs, part by part; nothing of what is the same."""
    yield from _changes({"job": found.job, "state": found.state, "error": found.error, "version": found.job_version})
    if found.duration_ms is not None:
        yield f"took {duration(found.duration_ms.left)} → {duration(found.duration_ms.right)}"
    yield from _io("reads", found.inputs)
    yield from _io("writes", found.outputs)
    for one in found.code:
        yield from _code(one)


def version_diff_text(found: VersionDiff) -> Iterator[RenderableType]:
    """What differs between two versions of a dataset."""
    yield f"{full_name(found.dataset)}: run {found.runs.left} → run {found.runs.right}"
    yield from _changes({"written by": found.written_by})
    yield from _dataset(found.difference)


def _changes(changes: dict[str, Change[str] | Change[str | None] | None]) -> Iterator[str]:
    for what, change in changes.items():
        if change is not None:
            yield f"{what}: {change.left} → {change.right}"


def _io(word: str, found: IoDiff) -> Iterator[RenderableType]:
    for sign, style, datasets in (("+", "green", found.added), ("-", "red", found.removed)):
        yield from (Text(f"{sign} {word} {_name(dataset)}", style=style) for dataset in datasets)
    for one in found.changed:
        yield f"{word} {_name(one.dataset)}:"
        yield from _dataset(one)


def _dataset(found: DatasetDiff) -> Iterator[RenderableType]:
    if found.version is not None:
        yield f"  version {found.version.left} → {found.version.right}"
    if found.row_count is not None:
        yield f"  rows {found.row_count.left} → {found.row_count.right}"
    if found.schema is not None:
        yield from (Text(f"  + column {name}", style="green") for name in found.schema.added)
        yield from (Text(f"  - column {name}", style="red") for name in found.schema.removed)
        yield from (f"  column {one.name}: {one.left} → {one.right}" for one in found.schema.retyped)
    if found.lineage is not None:
        for sign, style, edges in (("+", "green", found.lineage.added), ("-", "red", found.lineage.removed)):
            for edge in edges:
                told = (
                    f"  {sign} {edge.column or '*'} ← {_name(edge.source)}.{edge.source_column} {edge.subtype.lower()}"
                )
                yield Text(told, style=style)


def _code(found: CodeDiff) -> Iterator[RenderableType]:
    lines = found.text.splitlines()
    yield Text(f"code of {found.name}:", style="bold")
    for line in lines[:_MOST_CODE_LINES]:
        style = {"+": "green", "-": "red", "@": "dim"}.get(line[:1], "")
        yield Text(f"  {line}", style=style)
    if len(lines) > _MOST_CODE_LINES:
        yield f"  … {len(lines) - _MOST_CODE_LINES} more lines: --json has them all"


def _name(dataset: Dataset) -> str:
    return dataset.name.rstrip("/").rsplit("/", 1)[-1]


def _node(node: LineageNode, edge: LineageEdge | None, more: str = "") -> Text:
    how = "" if edge is None else (edge.subtype or edge.kind).lower()
    told = ", ".join(part for part in (how, more) if part)
    return Text.assemble(
        (label(node), _STYLES[node.kind]),
        (f"  {node.kind} {node.namespace}", "dim"),
        (f"  {told}" if told else "", "dim"),
    )
