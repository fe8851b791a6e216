"""Operators of frames, Series and indexes, and the equivalent methods."""

from __future__ import annotations

_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor".split()
_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_UNARY = ("__neg__", "__pos__", "__abs__", "__invert__", "__round__")
OPERATORS = (
    *[f"__{name}__" for name in _ARITHMETIC],
    *[f"__r{name}__" for name in _ARITHMETIC],
    *[f"__i{name}__" for name in _ARITHMETIC],
    *_COMPARISONS,
    *_UNARY,
)
# The receiver is the left operand; comparisons are not listed since they may be reflected.
RECEIVER_FIRST = frozenset(f"__{prefix}{name}__" for name in _ARITHMETIC for prefix in ("", "i"))
ARITHMETIC_METHODS = (
    "add radd sub rsub subtract mul rmul multiply div rdiv divide truediv rtruediv floordiv rfloordiv mod rmod "
    "pow rpow eq ne lt le gt ge"
).split()
