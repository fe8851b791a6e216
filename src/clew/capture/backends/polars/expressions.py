"""Provenance of polars expressions, from their serialized tree."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from clew.capture.introspection.user_code import tracing_suppressed
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.provenance import Provenance, SeriesLineage, compose, union
from clew.capture.lineage.transformations import (
    AGGREGATION,
    CONDITIONAL,
    IDENTITY,
    INFERRED,
    OPAQUE,
    SORT,
    TRANSFORMATION,
    WINDOW,
    stronger_step,
)

_AGGREGATE_FUNCTIONS = frozenset(
    "CumSum CumProd CumMin CumMax CumCount RollingExpr RollingExprBy EwmMean EwmStd EwmVar Quantile Correlation "
    "ArgMax ArgMin".split()
)
_ALIAS_NODES = ("Alias", "KeepName", "RenameAlias")
# Nodes with value children (DIRECT) and condition children (INDIRECT).
_CONDITION_NODES = {
    "Over": (("function",), ("partition_by", "order_by"), WINDOW),
    "Ternary": (("truthy", "falsy"), ("predicate",), CONDITIONAL),
    "Filter": (("input",), ("by",), CONDITIONAL),
    "SortBy": (("expr",), ("by",), SORT),
}
_COALESCE_FUNCTIONS = ("Coalesce", "FillNull")
# Start of the kind of a node that calls a Python function, which polars serializes if cloudpickle is installed.
_PYTHON_FUNCTION = "Anonymous"


def output_provenance(expression: Any, version: FrameVersion, label: str) -> Provenance:
    """Return the provenance of one output column of an expression over the columns of `version`."""
    if isinstance(expression, str):
        return _field(version, expression)
    if not hasattr(expression, "meta"):
        return series_provenance(expression, version) if hasattr(expression, "to_frame") else {}
    try:
        tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - a Python function cannot be serialized
        names = expression.meta.root_names()
        return union(*[compose(_field(version, name), TRANSFORMATION | OPAQUE) for name in names])
    return _walk(tree, version, label, IDENTITY)


def series_provenance(series: Any, version: FrameVersion | None = None) -> Provenance:
    """Return the provenance of a Series; an untracked one may come from any column of `version`."""
    state = series.__dict__.get(STATE_ATTR)
    if isinstance(state, SeriesLineage):
        return state.provenance
    return version.fields(None, TRANSFORMATION | INFERRED) if version is not None else {}


def merged_provenance(expressions: Iterable[Any], version: FrameVersion) -> Provenance:
    """Return the merged provenance of several expressions, for conditions and keys."""
    return union(*[output_provenance(expression, version, "") for expression in expressions])


class OutputColumn(NamedTuple):
    """An output column of an expression, and the source column that a selector in it matches."""

    label: str
    selected: str


def output_columns(expression: Any, version: FrameVersion, labels: list[str], schema: Any) -> list[OutputColumn]:
    """Return the output columns of an expression; a selector has one for each column it matches."""
    if not hasattr(expression, "meta"):
        name = str(getattr(expression, "name", expression))
        return [OutputColumn(name, name)]
    if not expression.meta.has_multiple_outputs():
        return [OutputColumn(expression.meta.output_name(raise_if_undetermined=False) or "", "")]
    polars = sys.modules["polars"]
    try:
        with tracing_suppressed():
            # Let polars resolve the selector, with and without aliases.
            plan = polars.LazyFrame(schema=schema)
            names, source_names = [
                plan.select(variant).collect_schema().names()
                for variant in (expression, expression.meta.undo_aliases())
            ]
        return [OutputColumn(*pair) for pair in zip(names, source_names, strict=True)]
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return [OutputColumn(label, label) for label in labels if version.has(label)]


def _field(version: FrameVersion, name: str) -> Provenance:
    return version.field(name) if version.has(name) else {}


def _walk(node: Any, version: FrameVersion, label: str, step: int) -> Provenance:
    if isinstance(node, list):
        return union(*[_walk(child, version, label, step) for child in node])
    if not isinstance(node, dict):
        return {}
    inputs = []
    for kind, inner in node.items():
        if kind == "Column":
            inputs.append(compose(_field(version, inner), step))
        elif kind == "Selector":
            inputs.append(compose(_field(version, label), step))
        elif kind != "Literal":
            inputs += [
                _walk(child, version, label, stronger_step(child_step, step))
                for child, child_step in _child_steps(kind, inner)
            ]
    merged = union(*inputs)
    if any(kind.startswith(_PYTHON_FUNCTION) for kind in node):
        return compose(merged, TRANSFORMATION | OPAQUE)
    if "StructExpr" in _function_names(node):
        # A field of a struct that was built before: which columns it came from is unknown.
        return compose(merged, TRANSFORMATION | INFERRED)
    function = node.get("Function", {}).get("function") if isinstance(node.get("Function"), dict) else None
    if function in _COALESCE_FUNCTIONS:
        return union(merged, compose(merged, CONDITIONAL))
    return merged


def _function_names(node: dict[str, Any]) -> Iterable[Any]:
    inner = node.get("Function")
    function = inner.get("function") if isinstance(inner, dict) else None
    return function if isinstance(function, dict) else [function]


def literals(expressions: Iterable[Any]) -> list[Any]:
    """Return the numbers in expressions."""
    found: list[Any] = []
    for expression in expressions:
        try:
            pending = [msgspec.json.decode(expression.meta.serialize(format="json"))]
        except Exception:  # noqa: BLE001, S112 - no expression, or a Python function, which cannot be serialized
            continue
        while pending:
            node = pending.pop()
            if isinstance(node, dict):
                literal = node.get("Literal")
                values = literal.values() if isinstance(literal, dict) else ()
                found += [number for value in values if isinstance(value, dict) for number in value.values()]
                pending += [child for kind, child in node.items() if kind != "Literal"]
            elif isinstance(node, list):
                pending += node
    return [number for number in found if isinstance(number, (int, float))]


def _child_steps(kind: str, inner: Any) -> list[tuple[Any, int]]:
    """Return the children of a node and the transformation it applies to each."""
    if kind in _ALIAS_NODES:
        return [(inner[0] if isinstance(inner, list) else inner.get("expr", inner), IDENTITY)]
    if kind in _CONDITION_NODES:
        value, conditions, use = _CONDITION_NODES[kind]
        values = [(inner[name], TRANSFORMATION if kind == "Ternary" else IDENTITY) for name in value]
        return [*values, *[(inner.get(name) or [], use) for name in conditions]]
    if kind == "Function":
        function = inner.get("function")
        names = function if isinstance(function, dict) else [function]
        aggregates = not _AGGREGATE_FUNCTIONS.isdisjoint(names)
        return [(inner.get("input"), AGGREGATION if aggregates else TRANSFORMATION)]
    return [(inner, AGGREGATION if kind == "Agg" else TRANSFORMATION)]
