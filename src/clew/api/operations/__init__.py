"""Operations of `/api/v2`: each declares its parameters and response type and calls `clew.query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from clew.api.parameters import Parameter
from clew.index.reader import IndexReader
from clew.query.holdings import QueryResources


class NeedsThreadError(Exception):
    """Raised by an inline operation that must run in a thread this time."""


@dataclass(frozen=True)
class OperationContext:
    """Parsed request. Slow work raises `NeedsThreadError` if `on_event_loop`."""

    resources: QueryResources
    index: IndexReader
    values: dict[str, Any]
    on_event_loop: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class OperationSpec:
    """Declaration of an operation: path, parameters and response type."""

    name: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    response_type: type[Struct]


@dataclass(frozen=True)
class ApiOperation(OperationSpec):
    """Operation with its handler; `is_inline` handlers run on the event loop."""

    handler: Callable[[OperationContext], Struct]
    is_inline: bool = False
