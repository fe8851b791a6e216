"""Facets that say that they are no more."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field


class _Deletable(Struct):
    deleted: bool | None = field(default=None, name="_deleted")


_decode = msgspec.json.Decoder(_Deletable).decode


def is_deleted(facet: bytes) -> bool:
    """Whether a facet is `_deleted`: it then removes the earlier one of its name."""
    # Most facets have no such key. `find` takes two thirds of the time of `in`.
    if facet.find(b'"_deleted"') < 0:
        return False
    try:
        return _decode(facet).deleted is True
    except msgspec.DecodeError:
        return False
