"""pandas' warnings about chained assignment: they count references, so under a wrapper they are given here instead.

pandas 3 always copies on write, and warns that nothing will be changed. pandas 2 does so where it was asked to; else it
warns of what will come, if the object is a view.
"""

from __future__ import annotations

import dis
import warnings
from typing import Any

import pandas as pd
from pandas.errors import ChainedAssignmentError

_IS_COPY_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3

if _IS_COPY_ON_WRITE:
    from pandas.compat._constants import REF_COUNT, REF_COUNT_IDX, REF_COUNT_METHOD
    from pandas.errors.cow import (
        _chained_assignment_method_msg,
        _chained_assignment_method_update_msg,
        _chained_assignment_msg,
    )
else:
    from pandas._config import using_copy_on_write
    from pandas.compat._constants import REF_COUNT as REF_COUNT_METHOD
    from pandas.errors import (
        _chained_assignment_method_msg,
        _chained_assignment_msg,
        _chained_assignment_warning_method_msg,
        _chained_assignment_warning_msg,
        _check_cacher,
    )

    _chained_assignment_method_update_msg = _chained_assignment_method_msg
    REF_COUNT, REF_COUNT_IDX = 3, 2


_SETITEM_OPCODES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)


def _is_local(value: Any, frame: Any) -> bool:
    return any(known is value for known in frame.f_locals.values())


def warns_on_assignment(references: int, subject: Any, frame: Any) -> None:
    """Warn as `obj[key] = value` does when `obj` is a temporary.

    The count is taken by the wrapper, before it pushes the object on the stack once more to hand it over.
    """
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        is_view = any(block.refs.has_reference() for block in subject._mgr.blocks)
        if references <= REF_COUNT + _check_cacher(subject) and is_view:
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT and not _is_local(subject, frame) and _is_setitem_syntax(frame):
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)


def _is_setitem_syntax(frame: Any) -> bool:
    # Compiled code that sets an item holds one reference less and looks like chained assignment.
    return frame.f_code.co_code[frame.f_lasti] in _SETITEM_OPCODES


def warns_in_place(references: int, subject: Any, frame: Any, *, is_update: bool) -> None:
    """Warn as an in-place method does when it changes a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_METHOD + _check_cacher(subject) and subject._is_view_after_cow_rules():
            warnings.warn(_chained_assignment_warning_method_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_METHOD and not _is_local(subject, frame):
        message = _chained_assignment_method_update_msg if is_update else _chained_assignment_method_msg
        warnings.warn(message, ChainedAssignmentError, stacklevel=3)


def warns_on_indexer(references: int, subject: Any) -> None:
    """Warn as `obj.loc[key] = value` does when `obj` is a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_IDX + _check_cacher(subject):
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_IDX:
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)
