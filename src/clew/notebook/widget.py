"""The picture as a widget: what is chosen in it is a value that other cells can use."""

from __future__ import annotations

from importlib.resources import files

import anywidget
import traitlets
from msgspec import to_builtins

from clew.notebook.frame_graph import FrameGraph
from clew.notebook.picture import svg


class LineageWidget(anywidget.AnyWidget):
    """`selected` is the column that was clicked: `{"frame": …, "column": …}`, or empty."""

    _esm = files("clew.notebook").joinpath("widget.js").read_text(encoding="utf-8")
    svg = traitlets.Unicode().tag(sync=True)
    links: traitlets.List[dict[str, object]] = traitlets.List().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(self, graph: FrameGraph) -> None:
        super().__init__(svg=svg(graph), links=to_builtins(graph.links), selected={})
