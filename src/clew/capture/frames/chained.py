"""pandas' warnings about chained assignment, issued by the wrappers because pandas detects it by reference count.

pandas 3 always copies on write and warns that the assignment has no effect. pandas 2 does so if copy-on-write is
enabled; otherwise it warns about the future behaviour if the object is a view.
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


def _is_local(value: Any, caller: Any) -> bool:
    return any(local is value for local in caller.f_locals.values())


def warn_chained_setitem(references: int, receiver: Any, caller: Any) -> None:
    """Warn as `obj[key] = value` does when `obj` is a temporary.

    `references` is counted by the wrapper, since passing the object on adds another reference.
    """
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        is_view = any(block.refs.has_reference() for block in receiver._mgr.blocks)
        if references <= REF_COUNT + _check_cacher(receiver) and is_view:
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT and not _is_local(receiver, caller) and _is_setitem_syntax(caller):
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)


def _is_setitem_syntax(caller: Any) -> bool:
    # Compiled code that sets an item holds one reference less, which would look like chained assignment.
    return caller.f_code.co_code[caller.f_lasti] in _SETITEM_OPCODES


def warn_chained_method(references: int, receiver: Any, caller: Any, *, is_update: bool) -> None:
    """Warn as an in-place method does when it mutates a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_METHOD + _check_cacher(receiver) and receiver._is_view_after_cow_rules():
            warnings.warn(_chained_assignment_warning_method_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_METHOD and not _is_local(receiver, caller):
        message = _chained_assignment_method_update_msg if is_update else _chained_assignment_method_msg
        warnings.warn(message, ChainedAssignmentError, stacklevel=3)


def warn_chained_indexer(references: int, receiver: Any) -> None:
    """Warn as `obj.loc[key] = value` does when `obj` is a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_IDX + _check_cacher(receiver):
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_IDX:
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)
