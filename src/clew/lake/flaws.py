"""Validation of facets; an invalid facet is stored together with its error."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, count
from operator import not_

import pyarrow as pa

from clew.events.facet_shapes import FacetErrorCode, FacetSpec, check_facet, valid_prefix
from clew.lake.texts import StringBuffer

# A producer serializes a facet the same way each time. Beyond these limits, each facet is parsed.
_MAX_PREFIXES = 16
_MAX_PREFIX_LENGTH = 1024


class FacetValidator:
    """Validates the facets of one table.

    Valid facets are rarely parsed: the prefix of a valid facet is remembered, and facets with that prefix are valid.
    """

    def __init__(self, specs: Mapping[str, FacetSpec]) -> None:
        self._specs = specs
        self._valid_prefixes: defaultdict[str, tuple[bytes, ...]] = defaultdict(tuple)

    def find_errors(self, names: Sequence[str], facets: StringBuffer) -> pa.Array:
        """Return the error of each facet, null if it is valid; facets without a spec only have to be objects."""
        errors = dict(self._find(names, facets))
        return (
            pa.array(map(errors.get, range(len(names))), pa.string()) if errors else pa.nulls(len(names), pa.string())
        )

    def _find(self, names: Sequence[str], facets: StringBuffer) -> Iterator[tuple[int, str]]:
        # Lazy: a prefix learned from one facet is used for the next ones.
        prefixes = map(self._valid_prefixes.__getitem__, names)
        are_valid = map(facets.data.startswith, prefixes, facets.offsets.tolist())
        for position in compress(count(), map(not_, are_valid)):
            error = self._check(names[position], facets[position])
            if error is not None:
                yield position, error

    def _check(self, name: str, facet: bytes) -> str | None:
        spec = self._specs.get(name)
        # Facets are slices of valid JSON without surrounding whitespace: the first byte is sufficient.
        if not facet.startswith(b"{"):
            return FacetErrorCode.NULL if facet == b"null" else FacetErrorCode.NOT_AN_OBJECT
        error = None if spec is None else check_facet(facet, spec)
        if error is None:
            self._remember_prefix(name, facet, spec)
        return error

    def _remember_prefix(self, name: str, facet: bytes, spec: FacetSpec | None) -> None:
        prefixes = self._valid_prefixes[name]
        if len(prefixes) < _MAX_PREFIXES:
            prefix = "{" if spec is None else valid_prefix(facet.decode(), spec)
            if prefix is not None and len(prefix) <= _MAX_PREFIX_LENGTH:
                self._valid_prefixes[name] = (*prefixes, prefix.encode())
