"""What an expression of polars uses: its own description of itself, taken apart."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from clew.capture.flags import (
    AGGREGATION,
    CONDITIONAL,
    DIRECT,
    IDENTITY,
    INFERRED,
    OPAQUE,
    SORT,
    TRANSFORMATION,
    WINDOW,
)
from clew.capture.guard import own_code
from clew.capture.provenance import Provenance, SeriesState, composed, union
from clew.capture.versions import STATE, FrameVersion

_AGGREGATING = frozenset(
    "CumSum CumProd CumMin CumMax CumCount RollingExpr RollingExprBy EwmMean EwmStd EwmVar Quantile Correlation "
    "ArgMax ArgMin".split()
)
_NAMING = ("Alias", "KeepName", "RenameAlias")
# Nodes of which some parts give the value and others decide.
_DECIDING = {
    "Over": (("function",), ("partition_by", "order_by"), WINDOW),
    "Ternary": (("truthy", "falsy"), ("predicate",), CONDITIONAL),
    "Filter": (("input",), ("by",), CONDITIONAL),
    "SortBy": (("expr",), ("by",), SORT),
}
_COALESCING = ("Coalesce", "FillNull")


def uses(expression: Any, version: FrameVersion, label: str) -> Provenance:
    """The provenance of one column that an expression gives, over the columns of `version`."""
    if isinstance(expression, str):
        return _field(version, expression)
    if not hasattr(expression, "meta"):
        return of_series(expression, version) if hasattr(expression, "to_frame") else {}
    try:
        tree = msgspec.json.decode(expression.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001 - a Python function inside cannot be described
        names = expression.meta.root_names()
        return union(*[composed(_field(version, name), TRANSFORMATION | OPAQUE) for name in names])
    return _walked(tree, version, label, IDENTITY)


def of_series(series: Any, version: FrameVersion | None = None) -> Provenance:
    """The provenance of a Series; of one of which nothing is known, it may be any column of the frame it meets."""
    state = series.__dict__.get(STATE)
    if isinstance(state, SeriesState):
        return state.provenance
    return version.fields(None, TRANSFORMATION | INFERRED) if version is not None else {}


def used_by(expressions: Iterable[Any], version: FrameVersion) -> Provenance:
    """All that several expressions use, for conditions and keys."""
    return union(*[uses(one, version, "") for one in expressions])


class Output(NamedTuple):
    """A column that an expression gives, and the column that a selector in it stands for then."""

    label: str
    chosen: str


def outputs(expression: Any, version: FrameVersion, labels: list[str], schema: Any) -> list[Output]:
    """The columns that an expression gives: one by its name, of a selector as many as it chooses."""
    if not hasattr(expression, "meta"):
        name = str(getattr(expression, "name", expression))
        return [Output(name, name)]
    if not expression.meta.has_multiple_outputs():
        return [Output(expression.meta.output_name(raise_if_undetermined=False) or "", "")]
    polars = sys.modules["polars"]
    try:
        with own_code():
            # polars knows best what a selector chooses, and what it is called without another name.
            plan = polars.LazyFrame(schema=schema)
            named, chosen = [
                plan.select(one).collect_schema().names() for one in (expression, expression.meta.undo_aliases())
            ]
        return [Output(*pair) for pair in zip(named, chosen, strict=True)]
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return [Output(label, label) for label in labels if version.has(label)]


def _field(version: FrameVersion, name: str) -> Provenance:
    return version.field(name) if version.has(name) else {}


def _walked(node: Any, version: FrameVersion, label: str, step: int) -> Provenance:
    if isinstance(node, list):
        return union(*[_walked(part, version, label, step) for part in node])
    if not isinstance(node, dict):
        return {}
    found = []
    for kind, inner in node.items():
        if kind == "Column":
            found.append(composed(_field(version, inner), step))
        elif kind == "Selector":
            found.append(composed(_field(version, label), step))
        elif kind != "Literal":
            found += [_walked(part, version, label, _after(way, step)) for part, way in _parts(kind, inner)]
    joined = union(*found)
    function = node.get("Function", {}).get("function") if isinstance(node.get("Function"), dict) else None
    if function in _COALESCING:
        return union(joined, composed(joined, CONDITIONAL))
    return joined


def _parts(kind: str, inner: Any) -> list[tuple[Any, int]]:
    """The parts of a node, and what it does to each."""
    if kind in _NAMING:
        return [(inner[0] if isinstance(inner, list) else inner.get("expr", inner), IDENTITY)]
    if kind in _DECIDING:
        value, decisions, use = _DECIDING[kind]
        given = [(inner[name], TRANSFORMATION if kind == "Ternary" else IDENTITY) for name in value]
        return [*given, *[(inner.get(name) or [], use) for name in decisions]]
    if kind == "Function":
        function = inner.get("function")
        names = function if isinstance(function, dict) else [function]
        aggregates = not _AGGREGATING.isdisjoint(names)
        return [(inner.get("input"), AGGREGATION if aggregates else TRANSFORMATION)]
    return [(inner, AGGREGATION if kind == "Agg" else TRANSFORMATION)]


def _after(way: int, step: int) -> int:
    """A use that decides stays what it is; of two that give the value, the stronger remains."""
    if not step & DIRECT:
        return step
    return way if not way & DIRECT else max(way, step)
