"""`clew.lineage()` and `clew.explain()`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from msgspec import to_builtins

from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.query import FrameLineage, FrameSnapshot, target_version
from clew.display.graph import (
    FrameGraph,
    FrameLink,
    build_frame_graph,
    frame_variables,
    render_frame_svg,
    version_label,
)
from clew.errors import MissingExtraError, UsageError
from clew.query.model import indirect_phrase

_DIRECT = {
    "IDENTITY": "is copied from",
    "TRANSFORMATION": "is computed from",
    "AGGREGATION": "is aggregated from",
}


@functools.cache
def _widget_class() -> Any:
    """Create the class of the widget; anywidget is an optional dependency."""
    import anywidget
    import traitlets

    class LineageWidget(anywidget.AnyWidget):
        """Lineage widget; `selected` is the clicked column: `{"frame": …, "column": …}`, or empty."""

        _esm = files("clew.display").joinpath("widget.js").read_text(encoding="utf-8")
        svg = traitlets.Unicode().tag(sync=True)
        links: traitlets.List[dict[str, object]] = traitlets.List().tag(sync=True)
        selected = traitlets.Dict().tag(sync=True)

        def __init__(self, graph: FrameGraph) -> None:
            super().__init__(svg=render_frame_svg(graph), links=to_builtins(graph.links), selected={})

    return LineageWidget


def explain_graph(graph: FrameGraph, column: str | None = None) -> str:
    """Explain the sources of one or all columns of the target, one sentence per line."""
    columns = [column] if column is not None else list(graph.nodes[0].columns)
    lines = [line for name in columns for line in _explain_column(graph, 0, name, set())]
    return "\n".join([*lines, *_explain_rows(graph)])


def _explain_column(graph: FrameGraph, node: int, column: str, seen: set[tuple[int, str]]) -> Iterator[str]:
    if (node, column) in seen:
        return
    seen.add((node, column))
    links = [link for link in graph.links if (link.target, link.column) == (node, column)]
    direct = [link for link in links if link.type == "DIRECT"]
    name = f"{graph.nodes[node].title}.{column}"
    if not direct and node == 0:
        yield f"{name} has no recorded source."
    for phrase, group in _group_by_phrase(direct, lambda subtype: _DIRECT.get(subtype, "comes from")).items():
        qualifier = "" if all(link.is_certain for link in group) else " (inferred)"
        yield f"{name} {phrase} {_source_names(graph, group)}{_indirect_clause(graph, links)}{qualifier}."
    for link in direct:
        yield from _explain_column(graph, link.source, link.source_column, seen)


def _explain_rows(graph: FrameGraph) -> Iterator[str]:
    """Explain the dependencies of whole frames, starting at the target."""
    for node in range(len(graph.nodes)):
        row_links = [link for link in graph.links if link.target == node and link.column is None]
        if row_links:
            yield f"The rows of {graph.nodes[node].title} were {_join_names(_indirect_phrases(graph, row_links))}."


def _group_by_phrase(links: list[FrameLink], phrase_of: Callable[[str], str]) -> dict[str, list[FrameLink]]:
    groups: dict[str, list[FrameLink]] = {}
    for link in links:
        groups.setdefault(phrase_of(link.subtype), []).append(link)
    return groups


def _source_names(graph: FrameGraph, links: list[FrameLink]) -> str:
    return _join_names([f"{graph.nodes[link.source].title}.{link.source_column}" for link in links])


def _indirect_clause(graph: FrameGraph, links: list[FrameLink]) -> str:
    phrases = _indirect_phrases(graph, [link for link in links if link.type == "INDIRECT"])
    return f", {_join_names(phrases)}" if phrases else ""


def _indirect_phrases(graph: FrameGraph, links: list[FrameLink]) -> list[str]:
    groups = _group_by_phrase(links, indirect_phrase)
    return [f"{phrase} {_source_names(graph, group)}" for phrase, group in groups.items()]


def _join_names(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


class LineageView(FrameLineage):
    """Lineage of a frame, Series or file: text in a terminal, SVG or a widget in a notebook."""

    def __init__(
        self,
        target: FrameVersion,
        until: Iterable[FrameSnapshot],
        names: Mapping[FrameVersion, str],
        column: str | None = None,
    ) -> None:
        super().__init__(target, until)
        self._names = {**names, **self._stop_names}
        self._column = column

    def graph(self) -> FrameGraph:
        """Return the upstream frames and files, and their column lineage."""
        graph = build_frame_graph(self._target, self._names)
        return graph if self._column is None else graph.restrict_to(self._column)

    def svg(self) -> str:
        """Render the graph as SVG."""
        return render_frame_svg(self.graph())

    def widget(self) -> Any:
        """Return an interactive widget with selectable columns; needs the extra `widget`."""
        try:
            widget_class = _widget_class()
        except ModuleNotFoundError as error:
            raise MissingExtraError.for_module("widget", error.name or "anywidget") from error
        return widget_class(self.graph())

    def _to_edges(self, label: Any, provenance: Any) -> Any:
        if self._column is not None and label is not None and str(label) != self._column:
            return []
        return super()._to_edges(label, provenance)

    def _name(self, source: FrameVersion) -> str:
        return self._names.get(source) or super()._name(source)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'

    def _repr_mimebundle_(self, **_: Any) -> Any:
        """Return the Jupyter MIME bundle: widget if installed, SVG and text."""
        fallback = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            bundle = self.widget()._repr_mimebundle_()
        except MissingExtraError:
            return fallback
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **fallback}, metadata

    def _display_(self) -> Any:
        """Return the marimo display: widget if installed, otherwise SVG."""
        try:
            return self.widget()
        except MissingExtraError:
            import marimo

            return marimo.Html(self._repr_html_())


def lineage(target: Any, until: Iterable[FrameSnapshot] = (), *, column: Any = None) -> LineageView:
    """Return the lineage of a frame, a Series, or the path of a file written by this process.

    Trace back to `until` if given, and only `column` if given. Frames are labelled by the caller's variables.
    """
    return build_view(target, until, column, _caller_variables(2))


def explain(target: Any, *, column: Any = None) -> str:
    """Explain in text where a Series or the columns of a frame come from."""
    names = _caller_variables(2)
    view = build_view(target, (), column, names)
    return explain_graph(view.graph(), column=None if column is None else str(column))


def build_view(
    target: Any, until: Iterable[FrameSnapshot], column: Any, names: Mapping[FrameVersion, str]
) -> LineageView:
    """Build the view of a target; `names` are the labels of frames."""
    version = target_version(target)
    if column is not None and not version.has(column):
        columns = ", ".join(map(str, version.labels()))
        raise UsageError(
            f"{version_label(version, names.get(version))} has no column {column!r}.", hint=f"Its columns: {columns}."
        )
    return LineageView(version, until, names, None if column is None else str(column))


def _caller_variables(depth: int) -> dict[FrameVersion, str]:
    """Return the frame variables of the calling user code."""
    caller = sys._getframe(depth)  # noqa: SLF001 - the only access to the caller's variables
    return frame_variables((caller.f_locals, caller.f_globals))
