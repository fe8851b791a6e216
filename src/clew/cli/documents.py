"""The documentation of a pipeline as Markdown, and as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from clew.cli.figures import counted
from clew.query.documentation import Documentation, DocumentedCell, DocumentedDataset
from clew.reports.pages import document, paragraph, table


def markdown(found: Documentation) -> str:
    """A page for a repository or a wiki."""
    return "\n".join(_markdown(found)) + "\n"


def html(found: Documentation) -> str:
    """A page that needs nothing beside itself."""
    parts = [paragraph(_facts(found))]
    for title, datasets in (("Reads", found.reads), ("Writes", found.writes)):
        if datasets:
            parts.append(f"<h2>{title}</h2>")
        for dataset in datasets:
            parts += [f"<h3>{escape(dataset.short_name)}</h3>", paragraph(_dataset_facts(dataset))]
            parts.append(table(("column", "type", "comes from"), _column_rows(dataset)))
    parts.append("<h2>Cells</h2>")
    for cell in found.cells:
        parts += [f"<h3>{escape(cell.name)}</h3>", paragraph(_cell_facts(cell)), f"<pre>{escape(cell.code)}</pre>"]
    return document(found.notebook, *parts)


def _markdown(found: Documentation) -> Iterator[str]:
    yield from (f"# {found.notebook}", "", _facts(found), "")
    for title, datasets in (("Reads", found.reads), ("Writes", found.writes)):
        if datasets:
            yield from (f"## {title}", "")
        for dataset in datasets:
            yield from (f"### {dataset.short_name}", "", _dataset_facts(dataset), "")
            yield from ("| column | type | comes from |", "|---|---|---|")
            yield from (f"| {' | '.join(map(_cell_text, row))} |" for row in _column_rows(dataset))
            yield ""
    yield from ("## Cells", "")
    for cell in found.cells:
        fence = "```" if "```" not in cell.code else "````"
        yield from (f"### {cell.name}", "", _cell_facts(cell), "", f"{fence}python", cell.code, fence, "")


def _facts(found: Documentation) -> str:
    started = "" if found.started_at is None else f" of {found.started_at:%Y-%m-%d %H:%M} UTC"
    cells = counted(len(found.cells), "cell")
    return f"As its run {found.session_id}{started} shows it: {cells}, {found.state.lower()}."


def _dataset_facts(dataset: DocumentedDataset) -> str:
    rows = "" if dataset.row_count is None else f", {counted(dataset.row_count, 'row')}"
    return f"{dataset.name}: {counted(len(dataset.columns), 'column')}{rows}."


def _column_rows(dataset: DocumentedDataset) -> list[tuple[str, str, str]]:
    return [(name, kind or "", ", ".join(dataset.origins.get(name, ()))) for name, kind in dataset.columns]


def _cell_facts(cell: DocumentedCell) -> str:
    took = f"takes {', '.join(cell.took)}" if cell.took else "takes nothing"
    left = f"makes {', '.join(cell.left)}" if cell.left else "makes no frame"
    return f"{cell.state.capitalize()}; {took}; {left}."


def _cell_text(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
