"""Interactive lineage widget; its selection can be used by other cells."""

from __future__ import annotations

from importlib.resources import files

import anywidget
import traitlets
from msgspec import to_builtins

from clew.display.graph import FrameGraph, render_frame_svg


class LineageWidget(anywidget.AnyWidget):
    """Lineage widget; `selected` is the clicked column: `{"frame": …, "column": …}`, or empty."""

    _esm = files("clew.display").joinpath("widget.js").read_text(encoding="utf-8")
    svg = traitlets.Unicode().tag(sync=True)
    links: traitlets.List[dict[str, object]] = traitlets.List().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(self, graph: FrameGraph) -> None:
        super().__init__(svg=render_frame_svg(graph), links=to_builtins(graph.links), selected={})
