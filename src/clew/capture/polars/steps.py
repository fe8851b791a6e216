"""Steps of polars frames: an eager one is told at once, a lazy one when its plan is collected or asked for."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from clew.capture.foreign import described, is_polars, remembered, tell, version_of_frame
from clew.capture.losses import count_loss
from clew.capture.polars.verbs import RULES, Verb, unknown
from clew.capture.records import Record
from clew.capture.versions import STATE, FrameVersion

if TYPE_CHECKING:
    from types import CodeType, FrameType


class Step:
    """A method that was called on frames: all that is needed to tell it later."""

    __slots__ = ("args", "code", "duration", "instruction", "kwargs", "name", "parents", "started")

    def __init__(
        self, name: str, parents: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType
    ) -> None:
        self.name = name
        self.parents = parents
        self.args = args
        self.kwargs = kwargs
        # The frame itself would keep the caller's variables alive.
        self.code: CodeType = caller.f_code
        self.instruction = caller.f_lasti
        self.started = time.perf_counter()
        self.duration = 0.0

    def ended(self) -> None:
        """The method has returned."""
        self.duration = time.perf_counter() - self.started

    def place(self) -> tuple[CodeType, int, float, float]:
        """Where it stands in the code, when it began and how long it took."""
        return self.code, self.instruction, self.started, self.duration

    def tell(self, frame: Any) -> FrameVersion:
        """Record how `frame` was made."""
        sources = tuple(version_of_frame(parent) for parent in self.parents)
        version = described(frame)
        schema = self.parents[0].collect_schema() if self.parents and is_polars(self.parents[0]) else None
        verb = Verb(self.name, sources, self.args, self.kwargs, list(version.columns), schema)
        told = RULES.get(self.name, unknown)(verb)
        entry = Record(self.name, told.kind, version, told.edges)
        entry.rows = told.rows
        entry.parents = sources
        tell(entry, *self.place())
        return remembered(frame, version)


def resolved(frame: Any) -> FrameVersion | None:
    """The version of a polars frame; of a lazy one the steps behind it are told first."""
    state = frame.__dict__.get(STATE)
    if not isinstance(state, Step):
        return state if isinstance(state, FrameVersion) else None
    del frame.__dict__[STATE]
    try:
        return state.tell(frame)
    except sys.modules["polars"].exceptions.PolarsError:
        # A plan that cannot be run: the user will be told by polars.
        return None
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss(f"polars {state.name}", error)
        return None
