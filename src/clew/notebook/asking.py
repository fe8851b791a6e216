"""`clew.lineage` and `clew.explain`: lineage of an in-memory frame, displayed by the notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clew.capture.lineage import FrameLineage, FrameSnapshot, target_version
from clew.capture.versions import FrameVersion
from clew.errors import MissingExtraError, UsageError
from clew.notebook.frame_graph import FrameGraph, build_frame_graph, frame_variables, version_label
from clew.notebook.words import explain_graph

if TYPE_CHECKING:
    from clew.notebook.widget import LineageWidget


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
        from clew.notebook.picture import render_frame_svg

        return render_frame_svg(self.graph())

    def widget(self) -> LineageWidget:
        """Return an interactive widget with selectable columns; needs the extra `widget`."""
        try:
            from clew.notebook.widget import LineageWidget
        except ModuleNotFoundError as error:
            raise MissingExtraError.for_module("widget", error.name or "anywidget") from error
        return LineageWidget(self.graph())

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
