"""Static inspection of user functions: the columns and variables that their code references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.flags import OPAQUE, TRANSFORMATION
from clew.capture.frames.state import current_version, lineage_or_empty, provenance_or_empty
from clew.capture.provenance import Provenance, apply_direct, union
from clew.capture.statements import reads_defining

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from types import CodeType, FrameType

    from clew.capture.versions import FrameVersion

# Functions of these modules have no hidden inputs.
_TRANSPARENT_MODULES = ("builtins", "math", "numpy", "operator")
_CONTAINERS = (dict, list, set, tuple)


def is_opaque(function: Any) -> bool:
    """Return whether a value is a function with unknown inputs; `len`, `np.mean` and `str.upper` are not."""
    if not callable(function) or isinstance(function, np.ufunc):
        return False
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    is_str_method = owner is str
    return not is_str_method and getattr(function, "__module__", None) not in _TRANSPARENT_MODULES


def has_user_function(argument: Any) -> bool:
    """Return whether an argument of `agg`, `transform` or `pivot_table` contains a user function."""
    return any(user_functions(argument))


def user_functions(argument: Any) -> list[Any]:
    """Return the user functions in an argument: a function, a list of them, or a mapping by column."""
    if isinstance(argument, (list, tuple, dict)):
        items = argument.values() if isinstance(argument, dict) else argument
        return [function for item in items for function in user_functions(item)]
    return [argument] if is_opaque(argument) else []


def referenced_columns(function: Any, version: FrameVersion) -> list[Hashable]:
    """Return the columns that the function's code names in constants or attributes."""
    labels: dict[Hashable, None] = {}
    for code in _code_objects(function):
        for constant in code.co_consts:
            labels.update(dict.fromkeys(_constant_labels(constant, version)))
        labels.update(dict.fromkeys(name for name in code.co_names if version.has(name)))
    return list(labels)


def closure_provenance(function: Any, caller: FrameType) -> Provenance:
    """Return the provenance of the globals and closure variables that a function references."""
    sources = [_variable_provenance(function, name, value, caller) for name, value in _variables(function)]
    return apply_direct(union(*sources), TRANSFORMATION | OPAQUE)


def _variable_provenance(function: Any, name: str, value: Any, caller: FrameType) -> Provenance:
    if isinstance(value, pd.DataFrame):
        version = current_version(value)
        return version.fields(referenced_columns(function, version) or None)
    if isinstance(value, pd.Series):
        # A lookup uses its index.
        return union(provenance_or_empty(value), *(lineage_or_empty(value).index or {}).values())
    if isinstance(value, _CONTAINERS):
        return union(*reads_defining(caller, {name}))
    return provenance_or_empty(value)


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    module_globals = getattr(function, "__globals__", {})
    cells = getattr(function, "__closure__", None) or ()
    for code in _code_objects(function):
        yield from ((name, module_globals[name]) for name in code.co_names if name in module_globals)
    for name, cell in zip(getattr(getattr(function, "__code__", None), "co_freevars", ()), cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # empty cell
            continue


def _code_objects(function: Any) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions nested in it."""
    code = getattr(function, "__code__", None)
    pending = [code] if code is not None else []
    while pending:
        code = pending.pop()
        yield code
        pending.extend(constant for constant in code.co_consts if hasattr(constant, "co_consts"))


def _constant_labels(constant: Any, version: FrameVersion) -> list[Hashable]:
    items = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return [item for item in (*items, constant) if isinstance(item, (str, int, tuple)) and version.has(item)]
