"""`import clew.pandas` gives every DataFrame an accessor: `df.lineage` shows where the frame came from.

A frame with a column of its own named `lineage` has it as `df["lineage"]` then.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

from clew.notebook.asking import ShownLineage, asked
from clew.notebook.frame_graph import variables_of


@pd.api.extensions.register_dataframe_accessor("lineage")
class LineageAccessor:
    """The lineage of a frame, as it is whenever it is asked for."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __call__(self, column: Any = None) -> ShownLineage:
        """The lineage of the frame, or of one of its columns."""
        return asked(self._frame, (), column, variables_of((vars(sys.modules["__main__"]),)))

    def __repr__(self) -> str:
        return repr(self())

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return self()._repr_mimebundle_()

    def _display_(self) -> Any:
        return self()._display_()
