"""The questions of `/api/v2`: each declared with its parameters and its answer, and asked of `clew.query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from clew.api.parameters import Parameter
from clew.index.reader import IndexReader
from clew.query.holdings import Holdings


class TakesLongerError(Exception):
    """A question that was thought to be quick is not, this time."""


@dataclass(frozen=True)
class Asked:
    """A question, read. In a hurry, what takes longer raises a `TakesLongerError`."""

    holdings: Holdings
    index: IndexReader
    values: dict[str, Any]
    is_hurried: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class Question:
    """What can be asked at a path, with which parameters, and what the answer is."""

    name: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    answer: type[Struct]


@dataclass(frozen=True)
class Operation(Question):
    """A question, and who answers it. One that is quick is answered at once, without a thread."""

    ask: Callable[[Asked], Struct]
    is_quick: bool = False
