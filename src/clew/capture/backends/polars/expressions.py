"""Provenance of polars expressions, from their serialized tree."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from clew.capture.introspection.user_code import tracing_suppressed
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, iter_blocks
from clew.capture.lineage.operations import IdentityEdges
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
# Functions of several columns, by name and operation.
_EXPANDING_FUNCTION = re.compile(r"Horizontal|^AsStruct|^Coalesce|^ConcatExpr|^ListExpr Concat|^FusedMultiply")
_COALESCE_FUNCTIONS = ("Coalesce", "FillNull")
# Start of the kind of a node that calls a Python function, which polars serializes if cloudpickle is installed.
_PYTHON_FUNCTION = ("Anonymous", "FoldHorizontal", "ReduceHorizontal", "CumFoldHorizontal", "CumReduceHorizontal")


def output_provenance(expression: Any, version: FrameVersion, label: str) -> Provenance:
    """Return the provenance of one output column of an expression over the columns of `version`."""
    if isinstance(expression, str):
        return _field(version, expression)
    if isinstance(expression, SeriesLineage):
        return expression.provenance
    if not hasattr(expression, "meta"):
        return series_provenance(expression, version) if hasattr(expression, "to_frame") else {}
    tree = _parse(expression).root
    if tree is None:
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


def _selected_fields(selector: dict[str, Any], version: FrameVersion) -> Provenance:
    """Return the provenance of the columns that a selector matches; INFERRED from all if their types are unknown."""
    polars = sys.modules["polars"]
    try:
        types = {version.columns[positions[0]]: dtype for dtype, positions in iter_blocks(version.blocks or [])}
        expression = polars.Expr.deserialize(msgspec.json.encode(selector), format="json")
        with tracing_suppressed():
            names = polars.LazyFrame(schema=types).select(expression).collect_schema().names()
    except (polars.exceptions.PolarsError, TypeError, ValueError):
        return version.fields(None, TRANSFORMATION | INFERRED)
    return version.fields(names) if names else {}


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
            selected = _field(version, label) if label else _selected_fields(node, version)
            inputs.append(compose(selected, step))
        elif kind != "Literal":
            # The selectors in `sum_horizontal(pl.all())` are expanded to its inputs.
            child_label = "" if any(map(_EXPANDING_FUNCTION.search, _function_paths(node))) else label
            inputs += [
                _walk(child, version, child_label, stronger_step(child_step, step))
                for child, child_step in _child_steps(kind, inner)
            ]
    return _apply_function(node, union(*inputs), version, label, step)


def _apply_function(
    node: dict[str, Any], merged: Provenance, version: FrameVersion, label: str, step: int
) -> Provenance:
    """Return the provenance of a node from that of all its inputs."""
    functions = _function_names(node)
    if any(kind.startswith(_PYTHON_FUNCTION) for kind in (*node, *functions)):
        return compose(merged, TRANSFORMATION | OPAQUE)
    if "StructExpr" in functions:
        known = _selected_field(node, version, label)
        return compose(merged, TRANSFORMATION | INFERRED) if known is None else compose(known, step)
    if "Eval" in node and _selects_struct_field(node):
        # How the structs in a list were built is unknown.
        return compose(merged, TRANSFORMATION | INFERRED)
    if not functions.keys().isdisjoint(_COALESCE_FUNCTIONS):
        return union(merged, compose(merged, CONDITIONAL))
    return merged


def _function_names(node: dict[str, Any]) -> dict[str, Any]:
    """Return the function of a node by its name, with its options."""
    inner = node.get("Function")
    function = inner.get("function") if isinstance(inner, dict) else None
    return function if isinstance(function, dict) else {function: None} if isinstance(function, str) else {}


def _function_paths(node: dict[str, Any]) -> list[str]:
    """Return the names of a node's function: `ListExpr Concat`."""
    functions = _function_names(node).items()
    return [f"{name} {list(options) if isinstance(options, dict) else options}" for name, options in functions]


class _ParsedExpression(NamedTuple):
    """The tree of an expression, without the values of lists; None if polars cannot serialize it."""

    root: Any
    numbers: frozenset[Any]
    # Whether there are lists or Series among its literals, or Python functions, which may read some.
    has_lists: bool


def _parse(expression: Any) -> _ParsedExpression:
    """Return the tree of an expression; stored with the expression, since a list makes it large."""
    parsed = expression.__dict__.get(STATE_ATTR)
    if parsed is None:
        try:
            root = msgspec.json.decode(expression.meta.serialize(format="json"))
        except Exception:  # noqa: BLE001 - a Python function cannot be serialized
            root = None
        literals = list(_strip_literals(root))
        numbers = frozenset(value for value in literals if isinstance(value, (int, float)))
        parsed = _ParsedExpression(root, numbers, root is None or None in literals)
        expression.__dict__[STATE_ATTR] = parsed
    return parsed  # type: ignore[no-any-return]


def _strip_literals(root: Any) -> Iterator[Any]:
    """Remove the literals from a tree, and yield the values of scalars, and None for a list, a Series or a function."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            if any(kind.startswith(_PYTHON_FUNCTION) for kind in (*node, *_function_names(node))):
                yield None
            literal = node.get("Literal")
            if isinstance(literal, dict):
                node["Literal"] = None
                for kind, value in literal.items():
                    values = value.values() if isinstance(value, dict) else ()
                    yield from [None if isinstance(item, list) else item for item in values if item is not None]
                    if kind == "Series":
                        yield None
            pending += [child for kind, child in node.items() if kind != "Literal"]


def literal_values(expressions: Iterable[Any]) -> tuple[set[Any], bool]:
    """Return the numbers in expressions, and whether there are lists, Series or Python functions."""
    parsed = [_parse(expression) for expression in expressions if hasattr(expression, "meta")]
    return {number for item in parsed for number in item.numbers}, any(item.has_lists for item in parsed)


# Fields of structs that were built of columns, by the version and its column.
_built_structs: WeakKeyDictionary[FrameVersion, dict[str, dict[str, Provenance]]] = WeakKeyDictionary()


def remember_structs(version: FrameVersion, structs: dict[str, dict[str, Provenance]]) -> None:
    """Keep the fields of the structs in a version's columns."""
    built = {label: fields for label, fields in structs.items() if fields}
    if built:
        _built_structs[version] = built


def uses_struct_field(expression: Any) -> bool:
    """Return whether an argument is an expression of fields of structs."""
    return hasattr(expression, "meta") and _selects_struct_field(_parse(expression).root)


def built_struct(expression: Any, version: FrameVersion) -> dict[str, Provenance]:
    """Return the fields of the struct that an expression builds; empty for another expression."""
    tree = _parse(expression).root if hasattr(expression, "meta") else None
    while isinstance(tree, dict) and "Alias" in tree:
        tree = tree["Alias"][0]
    return _struct_fields(tree, version)


def _struct_fields(tree: Any, version: FrameVersion) -> dict[str, Provenance]:
    inputs = tree["Function"]["input"] if isinstance(tree, dict) and "AsStruct" in _function_names(tree) else []
    fields = {_output_name(node): _walk(node, version, "", IDENTITY) for node in inputs}
    return {} if None in fields else fields  # type: ignore[return-value]


def _output_name(node: Any) -> str | None:
    """Return the name of an expression's result; None if it depends on the schema."""
    if not isinstance(node, dict):
        return None
    kind, inner = next(iter(node.items()))
    if kind == "Column":
        return str(inner)
    if kind == "Alias":
        return str(inner[1])
    return _output_name(inner["input"][0]) if kind == "Function" and inner.get("input") else None


def struct_field(version: FrameVersion, column: str, name: str) -> Provenance | None:
    """Return the provenance of a field of a struct column; None if it is not known how the struct was built."""
    current: FrameVersion | None = version
    while current is not None:
        fields = _built_structs.get(current, {}).get(column)
        if fields is not None:
            return fields.get(name)
        edges = current.made_by.edges if current.made_by is not None else None
        is_copied = isinstance(edges, IdentityEdges) and edges.flags == IDENTITY and column not in (edges.changed or {})
        current = edges.source if is_copied else None  # type: ignore[union-attr]
    return None


def _selected_field(node: dict[str, Any], version: FrameVersion, label: str) -> Provenance | None:
    """Return the provenance of `struct.field(name)` of a column or of a struct in the same expression."""
    selector = _function_names(node)["StructExpr"]
    name = selector.get("FieldByName", label) if isinstance(selector, dict) else label
    source = node["Function"]["input"][0]
    if "Column" in source:
        return struct_field(version, source["Column"], name)
    return _struct_fields(source, version).get(name)


def _selects_struct_field(tree: Any) -> bool:
    """Return whether a part of an expression is `struct.field(name)` or another function of structs."""
    if isinstance(tree, dict) and "StructExpr" in tree:
        return True
    return any(
        map(_selects_struct_field, tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ())
    )


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
