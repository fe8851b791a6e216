"""What a query's text says of its columns: which columns of which tables each one comes from, and what chose the rows.

sqlglot takes the text apart, when lineage is asked for or written and never while the query runs: the first time it
takes half a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from clew.capture.flags import (
    AGGREGATION,
    COMPOSED,
    CONDITIONAL,
    DIRECT,
    FILTER,
    GROUP_BY,
    IDENTITY,
    JOIN,
    SORT,
    TRANSFORMATION,
    WINDOW,
)

# A column by the name of its table as the query writes it, or by the path of the file that it reads.
Leaf: TypeAlias = tuple[str, str]
Uses: TypeAlias = dict[Leaf, int]

FILE = "file:"


class Reading(NamedTuple):
    """The columns of a query with what they use, what holds for all its rows, and the tables that it reads."""

    columns: dict[str, Uses]
    rows: Uses
    tables: frozenset[str] = frozenset()


def read_query(text: str, tables: Mapping[str, list[str]], dialect: str = "duckdb") -> Reading:
    """Read a query; `tables` are the columns of the tables that are known."""
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
        msg = f"{type(tree).__name__} is no query"
        raise ValueError(msg)
    found = _Reader().scope(scope)
    read = {
        table_name(source) for inner in scope.traverse() for source in inner.sources.values() if not _is_scope(source)
    }
    return found._replace(tables=frozenset(read))


class _Reader:
    """Reads scopes from the inside out, each once."""

    def __init__(self) -> None:
        self._known: dict[int, Reading] = {}
        self._selected: dict[int, dict[str, Uses]] = {}

    def scope(self, scope: Any) -> Reading:
        if id(scope) not in self._known:
            sides = _sides(scope)
            self._known[id(scope)] = self._union(scope, sides) if sides else self._select(scope)
        return self._known[id(scope)]

    def _union(self, scope: Any, sides: list[Any]) -> Reading:
        first, second = map(self.scope, sides)
        if scope.expression.args.get("by_name"):
            names = dict.fromkeys([*first.columns, *second.columns])
            columns = {name: _joined(one.columns.get(name, {}) for one in (first, second)) for name in names}
        else:
            pairs = zip(first.columns.items(), second.columns.values(), strict=False)
            columns = {name: _joined((one, other)) for (name, one), other in pairs}
        rows = _joined((first.rows, second.rows))
        if scope.expression.args.get("distinct"):
            rows = _joined((rows, *[_used(uses, FILTER) for uses in columns.values()]))
        return Reading(columns, rows)

    def _select(self, scope: Any) -> Reading:
        select = scope.expression
        columns: dict[str, Uses] = {}
        for one in select.expressions:
            is_star = one.is_star
            columns["*" if is_star else one.alias_or_name] = (
                self._everything(scope) if is_star else self._projected(one.unalias(), scope)
            )
        # `ORDER BY total` names what was selected.
        self._selected[id(scope)] = columns
        rows = [self._source(source).rows for source in self._sources(scope)]
        for part, use in (("where", FILTER), ("having", FILTER), ("qualify", FILTER), ("group", GROUP_BY)):
            rows.append(self._condition(select.args.get(part), scope, use))
        rows.append(self._condition(select.args.get("order"), scope, SORT))
        rows += [self._condition(join.args.get("on"), scope, JOIN) for join in select.args.get("joins") or ()]
        rows += [_used(columns[name], use) for name, use in _by_all(select, columns)]
        rows.append(self._distinct(scope, columns))
        # What a subquery in a condition depends on as a whole.
        projected = {id(inner) for one in select.expressions for inner in _subqueries(one, scope)}
        rows += [self.scope(inner).rows for inner in scope.subquery_scopes if id(inner) not in projected]
        return Reading(columns, _joined(rows))

    def _projected(self, node: Any, scope: Any) -> Uses:
        """What a selected expression uses; what chose the rows of a subquery in it holds for that column alone."""
        inner = [self.scope(one).rows for one in _subqueries(node, scope)]
        return _joined([self._uses(node, scope, IDENTITY), *inner])

    def _distinct(self, scope: Any, columns: dict[str, Uses]) -> Uses:
        """DISTINCT drops rows by all columns, DISTINCT ON by those that it names."""
        distinct = scope.expression.args.get("distinct")
        if distinct is None:
            return {}
        named = distinct.args.get("on")
        if named is not None:
            return self._condition(named, scope, FILTER)
        return _joined(_used(uses, FILTER) for uses in columns.values())

    @staticmethod
    def _sources(scope: Any) -> list[Any]:
        return [source for _, source in scope.selected_sources.values()]

    def _source(self, source: Any) -> Reading:
        """A table, a file, or the query of a subquery or CTE."""
        return self.scope(source) if _is_scope(source) else Reading({}, {})

    def _everything(self, scope: Any) -> Uses:
        """A star that could not be spelled out: every column of the tables whose columns are not known."""
        return {(table_name(source), "*"): IDENTITY for source in self._sources(scope) if not _is_scope(source)}

    def _condition(self, node: Any, scope: Any, use: int) -> Uses:
        return _used(self._uses(node, scope, IDENTITY), use) if node is not None else {}

    def _uses(self, node: Any, scope: Any, step: int) -> Uses:
        """What an expression uses; `step` is what is done to the value of a column that stands here."""
        from sqlglot import expressions as exp

        if isinstance(node, exp.Column):
            return _stepped(self._column(node, scope), step)
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            inner = next((one for one in scope.subquery_scopes if one.expression is node.unnest()), None)
            return _stepped(_joined(self.scope(inner).columns.values()), step) if inner is not None else {}
        shared = _shared_key(node, scope)
        if shared is not None:
            return self._uses(shared, scope, step)
        parts = [self._uses(part, scope, way) for part, way in _parts(node, step)]
        return _joined(parts) if not isinstance(node, exp.Coalesce) else _coalesced(_joined(parts))

    def _column(self, column: Any, scope: Any) -> Uses:
        name, source = column.name, scope.sources.get(column.table)
        outer = scope.parent
        while source is None and column.table and outer is not None:
            # A subquery may name the tables of the query around it.
            source, outer = outer.sources.get(column.table), outer.parent
        if source is None:
            selected, sources = self._selected.get(id(scope), {}), self._sources(scope)
            if name in selected or len(sources) != 1:
                return selected.get(name, {})
            source = sources[0]
        if _is_scope(source):
            return self.scope(source).columns.get(name, {})
        return {(table_name(source), name): IDENTITY}


def _subqueries(node: Any, scope: Any) -> list[Any]:
    """The scopes of the subqueries that stand in an expression."""
    from sqlglot import expressions as exp

    inside = {id(found) for found in node.find_all(exp.Query)}
    return [one for one in scope.subquery_scopes if id(one.expression) in inside]


def _by_all(select: Any, columns: dict[str, Uses]) -> list[tuple[str, int]]:
    """GROUP BY ALL means every column that is no aggregate, ORDER BY ALL every column."""
    from sqlglot import expressions as exp

    found: list[tuple[str, int]] = []
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        plain = [one.alias_or_name for one in select.expressions if one.find(exp.AggFunc) is None]
        found += [(name, GROUP_BY) for name in plain if name in columns]
    if order is not None and any(isinstance(one.this, exp.Var) and one.this.name == "ALL" for one in order.expressions):
        found += [(name, SORT) for name in columns]
    return found


def _shared_key(node: Any, scope: Any) -> Any:
    """`JOIN ... USING (id)` makes one column of two: the key of the side that keeps its rows."""
    from sqlglot import expressions as exp

    if not isinstance(node, exp.Coalesce):
        return None
    columns = [node.this, *node.expressions]
    is_shared = all(isinstance(one, exp.Column) for one in columns) and len({one.name for one in columns}) == 1
    sides = {join.side for join in scope.expression.args.get("joins") or ()}
    if not is_shared or "FULL" in sides:
        return None
    return columns[-1] if "RIGHT" in sides else columns[0]


def _is_scope(source: Any) -> bool:
    return hasattr(source, "subquery_scopes")


def _sides(scope: Any) -> list[Any]:
    """The two sides of a UNION or its like; sqlglot has renamed what holds them."""
    sides: list[Any] = getattr(scope, "set_operation_scopes", None) or getattr(scope, "union_scopes", None) or []
    return sides


def _parts(node: Any, step: int) -> Iterable[tuple[Any, int]]:
    """The parts of an expression, and what it does to each."""
    from sqlglot import expressions as exp

    deciding = _deciding(node, step)
    if deciding is not None:
        return deciding
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star | exp.Literal):
        return []
    if isinstance(node, exp.Alias | exp.Paren | exp.Ordered | exp.Group | exp.Order | exp.Where | exp.Having):
        return [(part, step) for part in node.iter_expressions()]
    way = AGGREGATION if isinstance(node, exp.AggFunc) and not isinstance(node, exp.Lag | exp.Lead) else TRANSFORMATION
    return [(part, _stronger(way, step)) for part in node.iter_expressions()]


def _deciding(node: Any, step: int) -> list[tuple[Any, int]] | None:
    """The parts of an expression some of which decide rather than give a value; None for any other."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window):
        keys = [*(node.args.get("partition_by") or ()), *[one for one in [node.args.get("order")] if one is not None]]
        return [(node.this, step), *[(key, WINDOW) for key in keys]]
    if isinstance(node, exp.Order) and node.this is not None:
        # `list(price ORDER BY id)`: an aggregate of ordered values.
        return [(node.this, step), *[(one, SORT) for one in node.expressions]]
    if isinstance(node, exp.Filter):
        return [(node.this, step), (node.expression, CONDITIONAL)]
    if isinstance(node, exp.Case):
        chosen = [(branch.this, CONDITIONAL) for branch in node.args["ifs"]]
        given = [(branch.args["true"], TRANSFORMATION) for branch in node.args["ifs"]]
        subject = _optional(node.this, CONDITIONAL)
        return [*subject, *chosen, *given, *_optional(node.args.get("default"), TRANSFORMATION)]
    if isinstance(node, exp.If):
        branches = (node.args.get("true"), node.args.get("false"))
        return [(node.this, CONDITIONAL), *[part for one in branches for part in _optional(one, TRANSFORMATION)]]
    return None


def _optional(node: Any, step: int) -> list[tuple[Any, int]]:
    return [(node, step)] if node is not None else []


def _stronger(way: int, step: int) -> int:
    """A use that decides stays what it is; of two that give the value, the stronger remains."""
    return step if not step & DIRECT else max(way, step)


def table_name(table: Any) -> str:
    """The name of a table as the query writes it, or the path of the file that it reads."""
    from sqlglot import expressions as exp

    function = table.this
    if isinstance(function, exp.Func):
        literal = function.find(exp.Literal)
        return f"{FILE}{literal.this}" if literal is not None else function.sql()
    name = str(table.name)
    return f"{FILE}{name}" if "/" in name or name.rpartition(".")[2] in ("csv", "parquet", "json", "jsonl") else name


def _stepped(uses: Uses, step: int) -> Uses:
    if not step & DIRECT:
        return _used(uses, step)
    return {leaf: COMPOSED[step][flags & DIRECT] | (flags & ~DIRECT) for leaf, flags in uses.items()}


def _used(uses: Uses, use: int) -> Uses:
    return dict.fromkeys(uses, use)


def _coalesced(uses: Uses) -> Uses:
    return {leaf: flags | CONDITIONAL for leaf, flags in uses.items()}


def _joined(many: Iterable[Uses]) -> Uses:
    found: Uses = {}
    for uses in many:
        for leaf, flags in uses.items():
            found[leaf] = found.get(leaf, 0) | flags
    return found
