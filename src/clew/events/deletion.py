"""The `_deleted` flag of facets."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field


class _Deletable(Struct):
    deleted: bool | None = field(default=None, name="_deleted")


_decode_deletable = msgspec.json.Decoder(_Deletable).decode


def is_deleted(facet: bytes) -> bool:
    """Return True if the facet is `_deleted`, which removes the earlier facet of that name."""
    # `find` needs two thirds of the time of `in`.
    if facet.find(b'"_deleted"') < 0:
        return False
    try:
        return _decode_deletable(facet).deleted is True
    except msgspec.DecodeError:
        return False
