"""SQL column lineage with sqlglot: the sources of each output column and of the rows.

Queries are parsed when lineage is requested or written, never while they run: the first import of sqlglot costs
half a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from clew.capture.lineage.provenance import as_indirect, compose, union
from clew.capture.lineage.transformations import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    GROUP_BY,
    IDENTITY,
    JOIN,
    SORT,
    TRANSFORMATION,
    WINDOW,
    stronger_step,
)

# Table name as written in the query, or `file:` and a path; and the column.
SourceColumn: TypeAlias = tuple[str, str]
Dependencies: TypeAlias = dict[SourceColumn, int]

FILE_PREFIX = "file:"


class QueryLineage(NamedTuple):
    """Dependencies of each output column and of the rows, and the tables a query reads."""

    columns: dict[str, Dependencies]
    rows: Dependencies
    tables: frozenset[str] = frozenset()


def parse_query(text: str, tables: Mapping[str, list[str]], dialect: str = "duckdb") -> QueryLineage:
    """Parse a query; `tables` maps known tables to their columns."""
    import sqlglot
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    tree = sqlglot.parse_one(text, dialect=dialect)
    schema: dict[str, object] = {name: dict.fromkeys(columns, "unknown") for name, columns in tables.items()}
    qualified = qualify(
        tree,
        schema=schema or None,
        dialect=dialect,
        validate_qualify_columns=False,
        quote_identifiers=False,
        identify=False,
    )
    scope = build_scope(qualified)
    if scope is None:
        msg = f"{type(tree).__name__} is not a query"
        raise ValueError(msg)
    lineage = _ScopeVisitor().visit(scope)
    table_names = {
        table_name(source) for inner in scope.traverse() for source in inner.sources.values() if not _is_scope(source)
    }
    return lineage._replace(tables=frozenset(table_names))


class _ScopeVisitor:
    """Computes the lineage of scopes from the inside out, each once."""

    def __init__(self) -> None:
        self._lineages: dict[int, QueryLineage] = {}
        self._selected: dict[int, dict[str, Dependencies]] = {}

    def visit(self, scope: Any) -> QueryLineage:
        if id(scope) not in self._lineages:
            sides = _set_operation_sides(scope)
            self._lineages[id(scope)] = self._union(scope, sides) if sides else self._select(scope)
        return self._lineages[id(scope)]

    def _union(self, scope: Any, sides: list[Any]) -> QueryLineage:
        first, second = map(self.visit, sides)
        if scope.expression.args.get("by_name"):
            names = dict.fromkeys([*first.columns, *second.columns])
            columns = {name: union(first.columns.get(name), second.columns.get(name)) for name in names}
        else:
            pairs = zip(first.columns.items(), second.columns.values(), strict=False)
            columns = {name: union(left, right) for (name, left), right in pairs}
        rows = union(first.rows, second.rows)
        if scope.expression.args.get("distinct"):
            rows = union(rows, *[as_indirect(column, FILTER) for column in columns.values()])
        return QueryLineage(columns, rows)

    def _select(self, scope: Any) -> QueryLineage:
        select = scope.expression
        columns: dict[str, Dependencies] = {}
        for expression in select.expressions:
            is_star = expression.is_star
            columns["*" if is_star else expression.alias_or_name] = (
                self._star(scope) if is_star else self._projection(expression.unalias(), scope)
            )
        # `ORDER BY total` may refer to a selected column.
        self._selected[id(scope)] = columns
        rows = [self._source(source).rows for source in self._sources(scope)]
        for part, use in (("where", FILTER), ("having", FILTER), ("qualify", FILTER), ("group", GROUP_BY)):
            rows.append(self._condition(select.args.get(part), scope, use))
        rows.append(self._condition(select.args.get("order"), scope, SORT))
        rows += [self._condition(join.args.get("on"), scope, JOIN) for join in select.args.get("joins") or ()]
        rows += [as_indirect(columns[name], use) for name, use in _all_columns(select, columns)]
        rows.append(self._distinct(scope, columns))
        # Row dependencies of subqueries in conditions.
        projected = {id(inner) for node in select.expressions for inner in _subqueries(node, scope)}
        rows += [self.visit(inner).rows for inner in scope.subquery_scopes if id(inner) not in projected]
        return QueryLineage(columns, union(*rows))

    def _projection(self, node: Any, scope: Any) -> Dependencies:
        """Return the dependencies of a selected expression, including row dependencies of its subqueries."""
        inner = [self.visit(subquery).rows for subquery in _subqueries(node, scope)]
        return union(self._dependencies(node, scope, IDENTITY), *inner)

    def _distinct(self, scope: Any, columns: dict[str, Dependencies]) -> Dependencies:
        """Return the dependencies of DISTINCT (all columns) or DISTINCT ON (the named ones)."""
        distinct = scope.expression.args.get("distinct")
        if distinct is None:
            return {}
        named = distinct.args.get("on")
        if named is not None:
            return self._condition(named, scope, FILTER)
        return union(*[as_indirect(column, FILTER) for column in columns.values()])

    @staticmethod
    def _sources(scope: Any) -> list[Any]:
        return [source for _, source in scope.selected_sources.values()]

    def _source(self, source: Any) -> QueryLineage:
        """Return the lineage of a source: a subquery or CTE, or empty for a table or file."""
        return self.visit(source) if _is_scope(source) else QueryLineage({}, {})

    def _star(self, scope: Any) -> Dependencies:
        """Return `*` of the tables with unknown columns, for a star that could not be expanded."""
        return {(table_name(source), "*"): IDENTITY for source in self._sources(scope) if not _is_scope(source)}

    def _condition(self, node: Any, scope: Any, use: int) -> Dependencies:
        return as_indirect(self._dependencies(node, scope, IDENTITY), use) if node is not None else {}

    def _dependencies(self, node: Any, scope: Any, step: int) -> Dependencies:
        """Return the dependencies of an expression; `step` is the transformation applied to its columns."""
        from sqlglot import expressions as exp

        if isinstance(node, exp.Column):
            return compose(self._column(node, scope), step)
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            inner = next((child for child in scope.subquery_scopes if child.expression is node.unnest()), None)
            return compose(union(*self.visit(inner).columns.values()), step) if inner is not None else {}
        shared = _shared_key(node, scope)
        if shared is not None:
            return self._dependencies(shared, scope, step)
        merged = union(
            *[self._dependencies(operand, scope, operand_step) for operand, operand_step in _operands(node, step)]
        )
        return union(merged, as_indirect(merged, CONDITIONAL)) if isinstance(node, exp.Coalesce) else merged

    def _column(self, column: Any, scope: Any) -> Dependencies:
        name, source = column.name, scope.sources.get(column.table)
        outer = scope.parent
        while source is None and column.table and outer is not None:
            # A correlated subquery may refer to tables of the outer query.
            source, outer = outer.sources.get(column.table), outer.parent
        if source is None:
            selected, sources = self._selected.get(id(scope), {}), self._sources(scope)
            if name in selected or len(sources) != 1:
                return selected.get(name, {})
            source = sources[0]
        if _is_scope(source):
            return self.visit(source).columns.get(name, {})
        return {(table_name(source), name): IDENTITY}


def _subqueries(node: Any, scope: Any) -> list[Any]:
    """Return the scopes of the subqueries in an expression."""
    from sqlglot import expressions as exp

    inside = {id(query) for query in node.find_all(exp.Query)}
    return [child for child in scope.subquery_scopes if id(child.expression) in inside]


def _all_columns(select: Any, columns: dict[str, Dependencies]) -> list[tuple[str, int]]:
    """Expand GROUP BY ALL (all non-aggregate columns) and ORDER BY ALL (all columns)."""
    from sqlglot import expressions as exp

    pairs: list[tuple[str, int]] = []
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        plain = [node.alias_or_name for node in select.expressions if node.find(exp.AggFunc) is None]
        pairs += [(name, GROUP_BY) for name in plain if name in columns]
    if order is not None and any(isinstance(key.this, exp.Var) and key.this.name == "ALL" for key in order.expressions):
        pairs += [(name, SORT) for name in columns]
    return pairs


def _shared_key(node: Any, scope: Any) -> Any:
    """Return the key of `JOIN ... USING (id)`: the column of the side whose rows are all preserved."""
    from sqlglot import expressions as exp

    if not isinstance(node, exp.Coalesce):
        return None
    columns = [node.this, *node.expressions]
    is_shared = all(isinstance(item, exp.Column) for item in columns) and len({item.name for item in columns}) == 1
    sides = {join.side for join in scope.expression.args.get("joins") or ()}
    if not is_shared or "FULL" in sides:
        return None
    return columns[-1] if "RIGHT" in sides else columns[0]


def _is_scope(source: Any) -> bool:
    return hasattr(source, "subquery_scopes")


def _set_operation_sides(scope: Any) -> list[Any]:
    """Return the two sides of a set operation; the attribute name depends on the sqlglot version."""
    sides: list[Any] = getattr(scope, "set_operation_scopes", None) or getattr(scope, "union_scopes", None) or []
    return sides


def _operands(node: Any, step: int) -> Iterable[tuple[Any, int]]:
    """Return the operands of an expression with the transformation applied to each."""
    from sqlglot import expressions as exp

    conditional = _conditional_operands(node, step)
    if conditional is not None:
        return conditional
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal):
        return []
    if isinstance(node, exp.Alias | exp.Paren | exp.Ordered | exp.Group | exp.Order | exp.Where | exp.Having):
        return [(part, step) for part in node.iter_expressions()]
    transformation = (
        AGGREGATION if isinstance(node, exp.AggFunc) and not isinstance(node, exp.Lag | exp.Lead) else TRANSFORMATION
    )
    return [(part, stronger_step(transformation, step)) for part in node.iter_expressions()]


def _conditional_operands(node: Any, step: int) -> list[tuple[Any, int]] | None:
    """Return the operands of an expression that has conditions, keys or order; None for any other."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window):
        keys = [*(node.args.get("partition_by") or ()), *[key for key in [node.args.get("order")] if key is not None]]
        return [(node.this, step), *[(key, WINDOW) for key in keys]]
    if isinstance(node, exp.Order) and node.this is not None:
        # `list(price ORDER BY id)`: an aggregate of ordered values.
        return [(node.this, step), *[(key, SORT) for key in node.expressions]]
    if isinstance(node, exp.Filter):
        return [(node.this, step), (node.expression, CONDITIONAL)]
    if isinstance(node, exp.Case):
        conditions = [(branch.this, CONDITIONAL) for branch in node.args["ifs"]]
        values = [(branch.args["true"], TRANSFORMATION) for branch in node.args["ifs"]]
        subject = _optional(node.this, CONDITIONAL)
        return [*subject, *conditions, *values, *_optional(node.args.get("default"), TRANSFORMATION)]
    if isinstance(node, exp.If):
        branches = (node.args.get("true"), node.args.get("false"))
        return [
            (node.this, CONDITIONAL),
            *[operand for branch in branches for operand in _optional(branch, TRANSFORMATION)],
        ]
    return None


def _optional(node: Any, step: int) -> list[tuple[Any, int]]:
    return [(node, step)] if node is not None else []


def table_name(table: Any) -> str:
    """Return the name of a table as written in the query, or `file:` and the path of a file."""
    from sqlglot import expressions as exp

    function = table.this
    if isinstance(function, exp.Func):
        literal = function.find(exp.Literal)
        return f"{FILE_PREFIX}{literal.this}" if literal is not None else function.sql()
    name = str(table.name)
    return (
        f"{FILE_PREFIX}{name}"
        if "/" in name or name.rpartition(".")[2] in ("csv", "parquet", "json", "jsonl")
        else name
    )
