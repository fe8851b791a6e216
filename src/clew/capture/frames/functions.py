"""What can be known of a user's function without running it: which column names its code mentions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from clew.capture.versions import FrameVersion


def columns_named_in(function: Any, version: FrameVersion) -> list[Hashable]:
    """Columns whose names stand in the function's code as constants or attributes; empty if none do."""
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    found: dict[Hashable, None] = {}
    waiting = [code]
    while waiting:
        code = waiting.pop()
        for constant in code.co_consts:
            if hasattr(constant, "co_consts"):
                waiting.append(constant)
            else:
                found.update(dict.fromkeys(_labels(constant, version)))
        found.update(dict.fromkeys(name for name in code.co_names if version.has(name)))
    return list(found)


def _labels(constant: Any, version: FrameVersion) -> list[Hashable]:
    parts = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return [part for part in (*parts, constant) if isinstance(part, (str, int, tuple)) and version.has(part)]
