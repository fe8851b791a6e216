"""`upstream`: where a column came from, as a tree of text and as a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clew.mcp.budget import Reply, clipped, fitting, longest, shown
from clew.mcp.replies import Source, StepReply, UpstreamReply
from clew.mcp.words import cell_label, full_column, how, short_column
from clew.query.model import Dataset, Hop
from clew.query.steps import Step, influence_words, is_influence, steps

_LONGEST_CODE = 200
_INDENT = "  "


def ancestry(root: Hop, tokens: int) -> Reply:
    """The way back from a column."""
    back = list(_steps_back(root))
    origins = list(dict.fromkeys(_origins(root)))

    def compose(entries: int) -> Reply:
        some = back[:entries]
        data = UpstreamReply(
            start=full_column(root.dataset, root.column),
            origins=origins[:entries],
            origin_total=len(origins),
            steps=list(map(_told, some)),
            step_total=len(back),
        )
        return Reply("\n".join(_lines(root, some, len(back), data)), data)

    return fitting(compose, longest(back, [*origins]), tokens)


def _steps_back(root: Hop) -> Iterator[Step]:
    """Nearest first: what a budget cuts off is then what lies furthest back."""
    queue = [root]
    for hop in queue:
        for made in steps(hop):
            yield made
            queue += made.direct


def _influences(made: Step, name: Callable[[Dataset, str | None], str]) -> list[str]:
    told = (f"{influence_words(hop)} {name(hop.dataset, hop.column)}" for hop in made.influences)
    return list(dict.fromkeys(told))


def _key(made: Step) -> int:
    return id(made.sources[0])


def _origins(hop: Hop) -> Iterator[str]:
    direct = [source for source in hop.upstream if not is_influence(source)]
    if not direct and not hop.is_repeated and hop.edge is not None:
        yield full_column(hop.dataset, hop.column)
    for source in direct:
        yield from _origins(source)


def _lines(root: Hop, some: list[Step], total: int, data: UpstreamReply) -> Iterator[str]:
    name = full_column(root.dataset, root.column)
    if not total:
        yield f"{name}: nothing is known to have made it; it came from outside, or its maker was not recorded."
        return
    yield f"{name} comes from ({shown(len(data.origins), data.origin_total)}): {', '.join(data.origins) or '…'}"
    yield f"Steps back ({shown(len(some), total)}):"
    yield from _tree(root, {_key(made) for made in some}, depth=0)


def _tree(hop: Hop, within: set[int], depth: int) -> Iterator[str]:
    """The tree grows sideways only where several columns were made into one."""
    for made in steps(hop):
        if _key(made) not in within:
            yield f"{_INDENT * depth}… further back: upstream of {full_column(hop.dataset, hop.column)}"
            return
        yield f"{_INDENT * depth}{_operation(made)}"
        is_branch = len(made.direct) > 1
        for source in made.direct:
            yield f"{_INDENT * depth}{'- ' if is_branch else ''}{_source(source)}"
            yield from _tree(source, within, depth + is_branch)


def _source(hop: Hop) -> str:
    seen = ", shown above" if hop.is_repeated else ""
    way = "" if hop.edge is None else f" ({how(hop.edge)}{seen})"
    return f"{short_column(hop.dataset, hop.column)}{way}"


def _operation(made: Step) -> str:
    influences = _influences(made, short_column)
    swayed = f" [{', '.join(influences)}]" if influences else ""
    return f"← {_place(made.sources[0])}{swayed}"


def _place(hop: Hop) -> str:
    if hop.operation is None or hop.cell is None:
        return f"job {hop.edge.job_name}" if hop.edge is not None else "unknown"
    line = "" if hop.operation.line is None else f", line {hop.operation.line}"
    return f"cell {cell_label(hop.cell)}{line}: {clipped(hop.operation.code, _LONGEST_CODE)}"


def _told(made: Step) -> StepReply:
    first = made.sources[0]
    operation, cell = first.operation, first.cell
    return StepReply(
        made=full_column(made.column.dataset, made.column.column),
        sources=[
            Source(column=full_column(s.dataset, s.column), how=how(s.edge) if s.edge else "") for s in made.direct
        ],
        influences=_influences(made, full_column),
        execution_id=None if cell is None else cell.execution_id,
        cell=None if cell is None else cell_label(cell),
        line=None if operation is None else operation.line,
        code=None if operation is None else clipped(operation.code, _LONGEST_CODE),
    )
