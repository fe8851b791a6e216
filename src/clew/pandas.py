"""`import clew.pandas` registers the DataFrame accessor `df.lineage`.

Capture registers it too, and so does `import clew` if pandas is already imported.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

_ACCESSOR_NAME = "lineage"


class LineageAccessor:
    """Accessor that computes the lineage of a frame on every use."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __call__(self, column: Any = None) -> Any:
        """Return the lineage of the frame, or of one of its columns."""
        # Imported on use: capture registers the accessor whenever pandas is imported.
        from clew.display.api import build_view
        from clew.display.graph import frame_variables

        variables = frame_variables((vars(sys.modules["__main__"]),))
        return build_view(self._frame, (), column, variables)

    def __repr__(self) -> str:
        return repr(self())

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return self()._repr_mimebundle_()

    def _display_(self) -> Any:
        return self()._display_()


class _LineageDescriptor:
    """Descriptor of `df.lineage`; a column or attribute with that name has precedence."""

    def __get__(self, frame: Any, owner: type) -> Any:
        if frame is None:
            return LineageAccessor
        if _ACCESSOR_NAME in frame.columns:
            return frame[_ACCESSOR_NAME]
        return vars(frame)[_ACCESSOR_NAME] if _ACCESSOR_NAME in vars(frame) else LineageAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        if _ACCESSOR_NAME in frame.columns:
            frame[_ACCESSOR_NAME] = value
        else:
            vars(frame)[_ACCESSOR_NAME] = value


def register_accessor() -> None:
    """Add `lineage` to pd.DataFrame, unless another package has defined it."""
    if not hasattr(pd.DataFrame, _ACCESSOR_NAME):
        setattr(pd.DataFrame, _ACCESSOR_NAME, _LineageDescriptor())


register_accessor()

__all__ = ["LineageAccessor"]
