"""Operators of frames, Series and indexes, and the methods that do what they do."""

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
# Those whose subject stands on the left: a comparison may have been turned round.
SUBJECT_FIRST = frozenset(f"__{prefix}{name}__" for name in _ARITHMETIC for prefix in ("", "i"))
ARITHMETIC_METHODS = (
    "add radd sub rsub subtract mul rmul multiply div rdiv divide truediv rtruediv floordiv rfloordiv mod rmod "
    "pow rpow eq ne lt le gt ge"
).split()
