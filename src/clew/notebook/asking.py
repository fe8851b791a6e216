"""`clew.lineage` and `clew.explain`: asked of a frame where it is, shown as the place can show it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clew.capture.lineage import Lineage, VersionToken, target_version
from clew.capture.versions import FrameVersion
from clew.errors import MissingExtraError, UsageError
from clew.notebook.frame_graph import FrameGraph, frame_graph, title_of, variables_of
from clew.notebook.words import words

if TYPE_CHECKING:
    from clew.notebook.widget import LineageWidget


class ShownLineage(Lineage):
    """The lineage of one frame, Series or file: text in a terminal, a picture in a notebook."""

    def __init__(
        self,
        target: FrameVersion,
        until: Iterable[VersionToken],
        names: Mapping[FrameVersion, str],
        column: str | None = None,
    ) -> None:
        super().__init__(target, until)
        self._names = {**names, **self._stops}
        self._column = column

    def graph(self) -> FrameGraph:
        """The frames and files behind it, and which of their columns went into which."""
        whole = frame_graph(self._target, self._names)
        return whole if self._column is None else whole.only(self._column)

    def svg(self) -> str:
        """The picture."""
        from clew.notebook.picture import svg

        return svg(self.graph())

    def widget(self) -> LineageWidget:
        """The picture as a widget, in which columns can be chosen; needs the extra `widget`."""
        try:
            from clew.notebook.widget import LineageWidget
        except ModuleNotFoundError as fault:
            raise MissingExtraError.named("widget", fault.name or "anywidget") from fault
        return LineageWidget(self.graph())

    def _told(self, label: Any, provenance: Any) -> Any:
        if self._column is not None and label is not None and str(label) != self._column:
            return []
        return super()._told(label, provenance)

    def _name(self, source: FrameVersion) -> str:
        return self._names.get(source) or super()._name(source)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'

    def _repr_mimebundle_(self, **_: Any) -> Any:
        """For Jupyter: the widget where it can be had, the picture, and the text."""
        told = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            bundle = self.widget()._repr_mimebundle_()
        except MissingExtraError:
            return told
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **told}, metadata

    def _display_(self) -> Any:
        """For marimo: the widget where it can be had, else the picture."""
        try:
            return self.widget()
        except MissingExtraError:
            import marimo

            return marimo.Html(self._repr_html_())


def lineage(target: Any, until: Iterable[VersionToken] = (), *, column: Any = None) -> ShownLineage:
    """The lineage of a frame, a Series, or the path of a file written here; back to `until` where given.

    With `column`, of that column alone. Frames are called by the variables that hold them where this is called.
    """
    return asked(target, until, column, _variables(2))


def explain(target: Any, *, column: Any = None) -> str:
    """Where a Series, or a column of a frame, comes from, in words."""
    names = _variables(2)
    shown = asked(target, (), column, names)
    return words(shown.graph(), column=None if column is None else str(column))


def asked(target: Any, until: Iterable[VersionToken], column: Any, names: Mapping[FrameVersion, str]) -> ShownLineage:
    """The lineage of what is asked for, with the names that frames have."""
    version = target_version(target)
    if column is not None and not version.has(column):
        known = ", ".join(map(str, version.labels()))
        raise UsageError(f"{title_of(version, names.get(version))} has no column {column!r}.", hint=f"It has {known}.")
    return ShownLineage(version, until, names, None if column is None else str(column))


def _variables(depth: int) -> dict[FrameVersion, str]:
    """The names of frames where the user has called."""
    caller = sys._getframe(depth)  # noqa: SLF001 - the only way to the names that the user gave
    return variables_of((caller.f_locals, caller.f_globals))
