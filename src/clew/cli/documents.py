"""Render the documentation of a notebook as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from clew.cli.figures import format_count
from clew.query.documentation import DocumentedCell, DocumentedDataset, NotebookDocumentation
from clew.reports.pages import render_page, render_paragraph, render_table


def documentation_markdown(documentation: NotebookDocumentation) -> str:
    """Render as Markdown."""
    return "\n".join(_markdown_lines(documentation)) + "\n"


def documentation_html(documentation: NotebookDocumentation) -> str:
    """Render as a self-contained HTML page."""
    parts = [render_paragraph(_notebook_facts(documentation))]
    for title, datasets in (("Reads", documentation.reads), ("Writes", documentation.writes)):
        if datasets:
            parts.append(f"<h2>{title}</h2>")
        for dataset in datasets:
            parts += [f"<h3>{escape(dataset.short_name)}</h3>", render_paragraph(_dataset_facts(dataset))]
            parts.append(render_table(("column", "type", "comes from"), _column_rows(dataset)))
    parts.append("<h2>Cells</h2>")
    for cell in documentation.cells:
        parts += [
            f"<h3>{escape(cell.name)}</h3>",
            render_paragraph(_cell_facts(cell)),
            f"<pre>{escape(cell.code)}</pre>",
        ]
    return render_page(documentation.notebook, *parts)


def _markdown_lines(documentation: NotebookDocumentation) -> Iterator[str]:
    yield from (f"# {documentation.notebook}", "", _notebook_facts(documentation), "")
    for title, datasets in (("Reads", documentation.reads), ("Writes", documentation.writes)):
        if datasets:
            yield from (f"## {title}", "")
        for dataset in datasets:
            yield from (f"### {dataset.short_name}", "", _dataset_facts(dataset), "")
            yield from ("| column | type | comes from |", "|---|---|---|")
            yield from (f"| {' | '.join(map(_escape_table_cell, row))} |" for row in _column_rows(dataset))
            yield ""
    yield from ("## Cells", "")
    for cell in documentation.cells:
        fence = "```" if "```" not in cell.code else "````"
        yield from (f"### {cell.name}", "", _cell_facts(cell), "", f"{fence}python", cell.code, fence, "")


def _notebook_facts(documentation: NotebookDocumentation) -> str:
    started = "" if documentation.started_at is None else f" of {documentation.started_at:%Y-%m-%d %H:%M} UTC"
    cells = format_count(len(documentation.cells), "cell")
    return f"From session {documentation.session_id}{started}: {cells}, {documentation.state.lower()}."


def _dataset_facts(dataset: DocumentedDataset) -> str:
    rows = "" if dataset.row_count is None else f", {format_count(dataset.row_count, 'row')}"
    return f"{dataset.name}: {format_count(len(dataset.columns), 'column')}{rows}."


def _column_rows(dataset: DocumentedDataset) -> list[tuple[str, str, str]]:
    return [
        (name, column_type or "", ", ".join(dataset.origins.get(name, ()))) for name, column_type in dataset.columns
    ]


def _cell_facts(cell: DocumentedCell) -> str:
    inputs = f"reads {', '.join(cell.inputs)}" if cell.inputs else "reads nothing"
    outputs = f"produces {', '.join(cell.outputs)}" if cell.outputs else "produces no DataFrame"
    return f"{cell.state.capitalize()}; {inputs}; {outputs}."


def _escape_table_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
