"""`df.lineage` shows where a frame came from, once pandas and clew have met."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pandas as pd

_NAME = "lineage"


class LineageAccessor:
    """The lineage of a frame, as it is whenever it is asked for."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __call__(self, column: Any = None) -> Any:
        """The lineage of the frame, or of one of its columns."""
        # What shows lineage stands above capture, and is loaded when somebody looks.
        asking, frame_graph = (import_module(f"clew.notebook.{name}") for name in ("asking", "frame_graph"))
        names = frame_graph.variables_of((vars(sys.modules["__main__"]),))
        return asking.asked(self._frame, (), column, names)

    def __repr__(self) -> str:
        return repr(self())

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return self()._repr_mimebundle_()

    def _display_(self) -> Any:
        return self()._display_()


class _Lineage:
    """The accessor of a frame; where a frame has a column or a value of that name, `df.lineage` is that, as ever."""

    def __get__(self, frame: Any, owner: type) -> Any:
        if frame is None:
            return LineageAccessor
        if _NAME in frame.columns:
            return frame[_NAME]
        return vars(frame)[_NAME] if _NAME in vars(frame) else LineageAccessor(frame)

    def __set__(self, frame: Any, value: Any) -> None:
        if _NAME in frame.columns:
            frame[_NAME] = value
        else:
            vars(frame)[_NAME] = value


def give_accessor() -> None:
    """Give every DataFrame its `lineage`, unless somebody else has given it one."""
    if not hasattr(pd.DataFrame, _NAME):
        setattr(pd.DataFrame, _NAME, _Lineage())
