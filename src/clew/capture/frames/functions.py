"""What can be known of a user's function without running it: the columns it mentions and the variables it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import OPAQUE, TRANSFORMATION
from clew.capture.frames.state import known, series_parts, version_of
from clew.capture.provenance import Provenance, through, union
from clew.capture.statements import reads_filling

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from types import CodeType, FrameType

    from clew.capture.versions import FrameVersion

# Their functions do what their names say, and nothing else.
_PLAIN_MODULES = ("builtins", "math", "numpy", "operator")
_CONTAINERS = (dict, list, set, tuple)


def is_opaque(function: Any) -> bool:
    """Whether a value is a function whose inside is unknown: `len`, `np.mean` and `str.upper` are not."""
    if not callable(function) or isinstance(function, np.ufunc):
        return False
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    is_of_text = owner is str
    return not is_of_text and getattr(function, "__module__", None) not in _PLAIN_MODULES


def has_function(given: Any) -> bool:
    """Whether a function of the user is among what was given to `agg`, `transform` or `pivot_table`."""
    return any(functions_in(given))


def functions_in(given: Any) -> list[Any]:
    """The functions of the user among what was given, alone, in lists or by column."""
    if isinstance(given, (list, tuple, dict)):
        parts = given.values() if isinstance(given, dict) else given
        return [function for part in parts for function in functions_in(part)]
    return [given] if is_opaque(given) else []


def columns_named_in(function: Any, version: FrameVersion) -> list[Hashable]:
    """Columns whose names stand in the function's code as constants or attributes; empty if none do."""
    found: dict[Hashable, None] = {}
    for code in _codes(function):
        for constant in code.co_consts:
            found.update(dict.fromkeys(_labels(constant, version)))
        found.update(dict.fromkeys(name for name in code.co_names if version.has(name)))
    return list(found)


def used_outside(function: Any, frame: FrameType) -> Provenance:
    """What a function uses besides its arguments: frames, Series and what was read into other variables it names."""
    found = [_use(function, name, value, frame) for name, value in _variables(function)]
    return through(union(*found), TRANSFORMATION | OPAQUE)


def _use(function: Any, name: str, value: Any, frame: FrameType) -> Provenance:
    if isinstance(value, pd.DataFrame):
        version = version_of(value)
        return version.fields(columns_named_in(function, version) or None)
    if isinstance(value, pd.Series):
        # A lookup in it goes by its labels.
        return union(known(value), *(series_parts(value).index or {}).values())
    if isinstance(value, _CONTAINERS):
        return union(*reads_filling(frame, {name}))
    return known(value)


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    outer = getattr(function, "__globals__", {})
    cells = getattr(function, "__closure__", None) or ()
    for code in _codes(function):
        yield from ((name, outer[name]) for name in code.co_names if name in outer)
    for name, cell in zip(getattr(getattr(function, "__code__", None), "co_freevars", ()), cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet filled
            continue


def _codes(function: Any) -> Iterator[CodeType]:
    """The code of a function and of the functions inside it."""
    code = getattr(function, "__code__", None)
    waiting = [code] if code is not None else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting.extend(constant for constant in code.co_consts if hasattr(constant, "co_consts"))


def _labels(constant: Any, version: FrameVersion) -> list[Hashable]:
    parts = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return [part for part in (*parts, constant) if isinstance(part, (str, int, tuple)) and version.has(part)]
