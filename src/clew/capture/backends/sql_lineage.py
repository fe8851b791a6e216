"""SQL column lineage with sqlglot: databases and their schemas, the sources of each output column and of the rows.

The schema is read from SQLite and DuckDB only, through the user's connection; no statement is sent to a server.
Queries are parsed when lineage is requested or written, never while they run: the first import of sqlglot costs
half a second. Names are resolved here and not by sqlglot, which raises an error if the columns of a table are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from clew.capture.backends.base import get_backend
from clew.capture.diagnostics import record_error
from clew.capture.lineage.datasets import (
    ExternalDataset,
    is_sqlite_connection,
    read_sqlite_schema,
    table_namer,
)
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.operations import external_version, last_written
from clew.capture.lineage.provenance import apply_direct, as_indirect, compose, union
from clew.capture.lineage.transformations import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    GROUP_BY,
    IDENTITY,
    INFERRED,
    JOIN,
    SORT,
    TRANSFORMATION,
    WINDOW,
    stronger_step,
)

# Table name as written in the query, or `file:` and a path; and the column.
SourceColumn: TypeAlias = tuple[str, str]
Dependencies: TypeAlias = dict[SourceColumn, int]
# A name and its dependencies. The name `*` stands for the columns of a table whose columns are unknown.
NamedColumn: TypeAlias = tuple[str, Dependencies]

FILE_PREFIX = "file:"
# The table and the column of a parameter of a query.
PARAMETER = "?"
STAR = "*"
_FILE_NAME = re.compile(
    r"/|\\|\.(?:csv|tsv|txt|parquet|pq|json|jsonl|ndjson|arrow|feather|ipc|xlsx|avro|db|duckdb)(?:\.\w+)?$",
    re.IGNORECASE,
)
# Table functions that name a table or have the text of a query.
_QUERY_FUNCTIONS = ("query", "query_table")
_FILE_FUNCTION = re.compile(r"read_|st_read$|\w+_scan$", re.IGNORECASE)
# Databases that resolve a name in the select list to an earlier alias if no table has the column.
_LATERAL_ALIASES = frozenset(["duckdb", "snowflake", "redshift", "clickhouse", "databricks", "spark"])
# Case of names that are not quoted.
_FOLDED = {"postgres": str.lower, "redshift": str.lower, "snowflake": str.upper, "oracle": str.upper}


_DIALECTS = {
    "postgresql": "postgres",
    "mssql": "tsql",
    "mariadb": "mysql",
    "psycopg": "postgres",
    "psycopg2": "postgres",
}
# A text that may write, or have several statements.
_CHANGES = re.compile(
    r";\s*\S|\b(?:create|insert|replace|update|delete|merge|copy|drop|alter|truncate|into)\b", re.IGNORECASE
)


class SourceDatabase(NamedTuple):
    """A database that a text was sent to."""

    dialect: str
    # The dataset of a table by the name in the text.
    dataset: Callable[[str], ExternalDataset]
    # Columns of the tables that the text mentions, by lower-case name.
    schema: dict[str, list[str]]

    def table(self, name: str) -> FrameVersion:
        """Return the version of a table: the last one written by this process, or an origin."""
        dataset = self.dataset(name)
        version = last_written(dataset)
        if version is None:
            version = external_version(dataset)
            version.columns = list(self.schema.get(name.lower(), ()))
        return version

    def has_table(self, name: str) -> bool:
        """Return whether the database is known to have a table."""
        return name.lower() in self.schema or last_written(self.dataset(name)) is not None


def may_write(text: Any) -> bool:
    """Return whether a text may change tables: the schema before it is needed."""
    return isinstance(text, str) and _CHANGES.search(text) is not None


def connection_database(connection: Any, text: str, frames: Mapping[str, FrameVersion] | None = None) -> SourceDatabase:
    """Return the database of a connection, an engine or a URL; `frames` are the variables that the text mentions."""
    module = type(connection).__module__.partition(".")[0]
    if module in ("duckdb", "_duckdb"):
        database: SourceDatabase = get_backend("duckdb").database(connection, text, frames)  # type: ignore[attr-defined]
        return database
    if module == "ibis" and hasattr(connection, "con"):
        return connection_database(connection.con, text)
    if hasattr(connection, "connection") and hasattr(connection, "fetchall"):
        return connection_database(connection.connection, text)
    url: Any = getattr(getattr(connection, "engine", connection), "url", None)
    name = url.get_backend_name() if hasattr(url, "get_backend_name") else module
    if isinstance(connection, str):
        name = connection.partition(":")[0].partition("+")[0]
    tables: dict[str, tuple[str, list[str]]] = {}
    if is_sqlite_connection(connection):
        name, tables = "sqlite", read_sqlite_schema(connection, text)
    elif name == "sqlite" and url is not None:
        tables = _engine_schema(connection, text)

    namer, names = table_namer(connection), {key: table for key, (table, _) in tables.items()}
    return SourceDatabase(
        _DIALECTS.get(name, name),
        # With the case that the database uses, if known.
        lambda table: namer(names.get(table.lower(), table)),
        {key: columns for key, (_, columns) in tables.items()},
    )


def _engine_schema(connection: Any, text: str) -> dict[str, tuple[str, list[str]]]:
    """Return the schema of SQLite behind SQLAlchemy, without a transaction of SQLAlchemy."""
    pooled: Any = getattr(connection, "connection", None)
    is_own = pooled is None
    try:
        pooled = connection.raw_connection() if is_own else pooled
        return read_sqlite_schema(pooled.dbapi_connection, text)
    except Exception as error:  # noqa: BLE001 - the schema is optional
        record_error("schema", error)
        return {}
    finally:
        if is_own and pooled is not None:
            pooled.close()


class QueryLineage(NamedTuple):
    """Dependencies of each output column and of the rows, and the tables a query reads."""

    columns: list[NamedColumn]
    rows: Dependencies
    tables: frozenset[str] = frozenset()


class UnsupportedSyntaxError(ValueError):
    """A statement without column lineage rules."""


def parse_statements(text: str, dialect: str) -> list[Any]:
    """Return the syntax trees of the statements of a text."""
    import sqlglot

    try:
        trees = sqlglot.parse(text, dialect=dialect)
    except sqlglot.errors.SqlglotError as error:
        msg = "the parser does not support the syntax"
        raise UnsupportedSyntaxError(msg) from error
    return [tree for tree in trees if tree is not None]


def parse_query(text: Any, tables: Mapping[str, list[str]], dialect: str = "duckdb") -> QueryLineage:
    """Return the lineage of a query, a text or a syntax tree; `tables` maps known tables to their columns."""
    from sqlglot import expressions as exp
    from sqlglot.optimizer.qualify_tables import qualify_tables
    from sqlglot.optimizer.scope import build_scope

    trees = parse_statements(text, dialect) if isinstance(text, str) else [text.copy()]
    if len(trees) != 1 or not isinstance(trees[0], exp.Query) or trees[0].find(exp.Pivot) is not None:
        msg = f"{type(trees[0]).__name__ if trees else 'no statement'} is not a supported query"
        raise UnsupportedSyntaxError(msg)
    _restore_columns(trees[0])
    _resolve_table_functions(trees[0], dialect)
    scope = build_scope(qualify_tables(trees[0], dialect=dialect))
    if scope is None:
        msg = f"{type(trees[0]).__name__} is not a query"
        raise UnsupportedSyntaxError(msg)
    visitor = _ScopeVisitor({name.lower(): columns for name, columns in tables.items()}, dialect)
    lineage = visitor.visit(scope)
    sources = [source for inner in scope.traverse() for source in inner.sources.values() if not _is_scope(source)]
    return lineage._replace(tables=frozenset(name for source in sources for name in source_names(source, dialect)))


def _restore_columns(tree: Any) -> None:
    """Restore columns that sqlglot parses as bare names, and remove variables that it parses as columns."""
    from sqlglot import expressions as exp

    for dot in list(tree.find_all(exp.Dot)):
        # `x.abs()` and `round(x, 2)::varchar.len()`
        for part in [node for node in dot.this.walk() if isinstance(node, exp.Identifier | exp.Dot)]:
            is_path = isinstance(part, exp.Dot) and isinstance(part.expression, exp.Identifier)
            if is_path and isinstance(part.this, exp.Identifier):
                part.replace(exp.Column(this=part.expression.copy(), table=part.this.copy()))
            elif isinstance(part, exp.Identifier) and part.arg_key == "this" and _is_operand(part):
                part.replace(exp.Column(this=part.copy()))
    for comprehension in list(tree.find_all(exp.Comprehension)):
        # `[x + 1 for x in items if x > 0]`
        variables = {comprehension.expression.name, getattr(comprehension.args.get("position"), "name", "")}
        for part in (comprehension.this, comprehension.args.get("condition")):
            for column in list(part.find_all(exp.Column)) if part is not None else ():
                if not column.table and column.name in variables and column is not tree:
                    column.replace(exp.Null())


def _resolve_table_functions(tree: Any, dialect: str) -> None:
    """Replace the functions `query_table('name')` and `query('text')` of DuckDB by what they name."""
    import sqlglot
    from sqlglot import expressions as exp

    for table in list(tree.find_all(exp.Table)):
        name = table.this.name.lower() if isinstance(table.this, exp.Anonymous) else ""
        literals = [item.this for item in table.this.find_all(exp.Literal)] if name in _QUERY_FUNCTIONS else []
        if not literals:
            continue
        text = literals[0]
        if name == "query_table":
            text = " union all by name ".join(f"select * from {literal}" for literal in literals)  # noqa: S608 - parsed, not run
        inner = exp.Subquery(this=sqlglot.parse_one(text, dialect=dialect), alias=table.args.get("alias"))
        inner.set("joins", table.args.get("joins"))
        _resolve_table_functions(inner, dialect)
        table.replace(inner)


def _is_operand(identifier: Any) -> bool:
    """Return whether a bare name in an expression is a column, and not a name of a field, an alias or a type."""
    from sqlglot import expressions as exp

    parent = identifier.parent
    is_first = not isinstance(parent, exp.Dot) or identifier.arg_key == "this"
    return is_first and not isinstance(parent, exp.Column | exp.PropertyEQ | exp.Alias | exp.TableAlias | exp.Table)


class _ScopeVisitor:
    """Computes the lineage of scopes from the inside out, each once."""

    def __init__(self, tables: dict[str, list[str]], dialect: str) -> None:
        self._tables = tables
        self._dialect = dialect
        self._lineages: dict[int, QueryLineage] = {}
        # Columns selected so far: an alias may be used by later expressions.
        self._selected: dict[int, list[NamedColumn]] = {}
        self._prefers_aliases = False

    def visit(self, scope: Any) -> QueryLineage:
        if id(scope) not in self._lineages:
            # A recursive query reads itself.
            self._lineages[id(scope)] = QueryLineage([], {})
            outer, self._prefers_aliases = self._prefers_aliases, False
            sides = _set_operation_sides(scope)
            if sides:
                lineage = self._set_operation(scope, sides)
            else:
                lineage = self._select(scope) if _is_select(scope) else self._table_function(scope)
            self._prefers_aliases = outer
            self._lineages[id(scope)] = lineage
        return self._lineages[id(scope)]

    def _set_operation(self, scope: Any, sides: list[Any]) -> QueryLineage:
        from sqlglot import expressions as exp

        first, second = map(self.visit, sides)
        operation = scope.expression
        if operation.args.get("by_name"):
            names = dict.fromkeys([name for name, _ in (*first.columns, *second.columns)])
            columns = [(name, union(_find(first.columns, name), _find(second.columns, name))) for name in names]
        elif isinstance(operation, exp.Except | exp.Intersect):
            # Rows of the first query, chosen by those of the second.
            columns = first.columns
        else:
            columns = _zip_columns(first.columns, second.columns)
        rows = union(first.rows, second.rows)
        if isinstance(operation, exp.Except | exp.Intersect) or operation.args.get("distinct"):
            compared = [column for _, column in (*columns, *second.columns)]
            rows = union(rows, *[as_indirect(column, FILTER) for column in compared])
        self._selected[id(scope)] = columns
        rows = union(rows, *[as_indirect(_find(columns, name), use) for name, use in _all_columns(operation, columns)])
        return QueryLineage(columns, union(rows, self._condition(operation.args.get("order"), scope, SORT)))

    def _table_function(self, scope: Any) -> QueryLineage:
        """Return the lineage of VALUES, UNNEST or LATERAL: every column depends on the arguments."""
        from sqlglot import expressions as exp

        node = scope.expression
        if isinstance(node.this, exp.Subquery) and scope.subquery_scopes:
            # LATERAL (SELECT ...), which may refer to the tables before it.
            inner = self.visit(scope.subquery_scopes[0])
            return inner._replace(columns=_rename(inner.columns, node.alias_column_names))
        outer = scope.parent if scope.parent is not None else scope
        uses = self._dependencies(node.this, outer, TRANSFORMATION) if node.this is not None else {}
        uses = union(uses, *[self._dependencies(item, outer, TRANSFORMATION) for item in node.expressions])
        names = node.alias_column_names
        return QueryLineage([(name, uses) for name in names] or [(STAR, uses)], {})

    def _select(self, scope: Any) -> QueryLineage:
        select = scope.expression
        columns: list[NamedColumn] = []
        self._selected[id(scope)] = columns
        for expression in select.expressions:
            columns += self._projection(expression, scope)
        rows = [self.visit(source).rows for _, source in self._sources(scope) if _is_scope(source)]
        parts = (("where", FILTER), ("having", FILTER), ("qualify", FILTER), ("group", GROUP_BY), ("order", SORT))
        rows += [self._condition(select.args.get(part), scope, use) for part, use in parts]
        rows += [self._condition(select.args.get(part), scope, FILTER) for part in ("limit", "offset")]
        for join in select.args.get("joins") or ():
            rows.append(self._condition(join.args.get("on"), scope, JOIN))
            rows += [as_indirect(uses, JOIN) for _, uses in self._shared_keys(join, scope)]
        rows += [as_indirect(_find(columns, name), use) for name, use in _all_columns(select, columns)]
        rows.append(self._distinct(scope, columns))
        # Row dependencies of subqueries in conditions.
        projected = {id(inner) for node in select.expressions for inner in _subqueries(node, scope)}
        rows += [self.visit(inner).rows for inner in scope.subquery_scopes if id(inner) not in projected]
        return QueryLineage(columns, union(*rows))

    def _projection(self, expression: Any, scope: Any) -> list[NamedColumn]:
        """Return the output columns of a selected expression, with row dependencies of its subqueries."""
        from sqlglot import expressions as exp

        node = expression.unalias()
        # `* LIKE 'pattern'` selects columns by name: those of the result are among all columns.
        star = node.this if isinstance(node, exp.Binary) else node
        if isinstance(star, exp.Star) or (isinstance(star, exp.Column) and isinstance(star.this, exp.Star)):
            return self._star(star, scope)
        selector = node.find(exp.Columns)
        if selector is not None:
            return [self._selected_column(node, selector, column, scope) for column in self._chosen(selector, scope)]
        inner = [self.visit(subquery).rows for subquery in _subqueries(node, scope)]
        return [(expression.alias_or_name, union(self._dependencies(node, scope, IDENTITY), *inner))]

    def _star(self, node: Any, scope: Any) -> list[NamedColumn]:
        """Expand `*` or `t.*` with EXCLUDE, REPLACE and RENAME."""
        table = getattr(node, "table", "")
        star = node.this if table else node
        joins = scope.expression.args.get("joins") or ()
        hidden = {join.alias_or_name.lower() for join in joins if join.kind in ("SEMI", "ANTI")}
        shared = (
            {} if table else {name.lower(): uses for join in joins for name, uses in self._shared_keys(join, scope)}
        )
        columns: list[NamedColumn] = []
        for alias, source in self._sources(scope):
            if (table and alias.lower() != table.lower()) or alias.lower() in hidden:
                continue
            for name, uses in self._source_columns(source):
                if name.lower() not in shared:
                    columns.append((name, uses))
                elif all(other.lower() != name.lower() for other, _ in columns):
                    columns.append((name, self._unqualified(name, scope)))
        excluded = {item.name.lower() for item in star.args.get("except_") or star.args.get("except") or ()}
        replaced = {item.alias.lower(): item.this for item in star.args.get("replace") or ()}
        renamed = {item.this.name.lower(): item.alias for item in star.args.get("rename") or ()}
        return [
            (
                renamed.get(name.lower(), name),
                self._dependencies(replaced[name.lower()], scope, IDENTITY) if name.lower() in replaced else uses,
            )
            for name, uses in columns
            if name.lower() not in excluded
        ]

    def _chosen(self, selector: Any, scope: Any) -> list[NamedColumn]:
        """Return the columns that COLUMNS(...) matches; all, marked INFERRED, if it is no pattern or list."""
        from sqlglot import expressions as exp

        columns = [column for _, source in self._sources(scope) for column in self._source_columns(source)]
        chosen = selector.this
        if isinstance(chosen, exp.Star):
            return self._star(chosen, scope)
        if isinstance(chosen, exp.Literal) and not any(name == STAR for name, _ in columns):
            # DuckDB's syntax of patterns (RE2) is not Python's.
            with suppress(re.error):
                return [column for column in columns if re.search(chosen.name, column[0])]
        names = {item.name.lower() for item in chosen.find_all(exp.Literal)} if isinstance(chosen, exp.Array) else set()
        if names:
            return [column for column in columns if column[0].lower() in names]
        return [(STAR, apply_direct(union(*[uses for _, uses in columns]), IDENTITY | INFERRED))]

    def _selected_column(self, node: Any, selector: Any, column: NamedColumn, scope: Any) -> NamedColumn:
        """Return the output column of an expression for one column that COLUMNS(...) matches."""
        name, uses = column
        if node is selector:
            return column
        step = next((step for operand, step in _operand_steps(node, IDENTITY) if operand is selector), TRANSFORMATION)
        others = [
            self._dependencies(operand, scope, operand_step)
            for operand, operand_step in _operand_steps(node, IDENTITY)
            if operand.find(type(selector)) is None
        ]
        return name, union(compose(uses, step), *others)

    def _distinct(self, scope: Any, columns: list[NamedColumn]) -> Dependencies:
        """Return the dependencies of DISTINCT (all columns) or DISTINCT ON (the named ones)."""
        distinct = scope.expression.args.get("distinct")
        if distinct is None:
            return {}
        named = distinct.args.get("on")
        if named is not None:
            return self._condition(named, scope, FILTER)
        return union(*[as_indirect(column, FILTER) for _, column in columns])

    @staticmethod
    def _sources(scope: Any) -> list[tuple[str, Any]]:
        return [(alias, source) for alias, (_, source) in scope.selected_sources.items()]

    def _source_columns(self, source: Any) -> list[NamedColumn]:
        """Return the columns of a table, a file, a subquery or a CTE."""
        if _is_scope(source):
            columns, parent = self.visit(source).columns, source.expression.parent
            return _rename(columns, getattr(parent, "alias_column_names", None) or [])
        tables, names = source_names(source, self._dialect), source.alias_column_names
        known = self._tables.get(tables[0].lower()) if len(tables) == 1 else None
        if known is None:
            return [(STAR, {(table, STAR): IDENTITY for table in tables})]
        return [(names[i] if i < len(names) else name, {(tables[0], name): IDENTITY}) for i, name in enumerate(known)]

    def _shared_keys(self, join: Any, scope: Any) -> list[NamedColumn]:
        """Return the keys of JOIN ... USING and NATURAL JOIN with the columns of both sides."""
        names = [item.name for item in join.args.get("using") or ()]
        if join.method == "NATURAL":
            right = next((source for alias, source in self._sources(scope) if alias == join.alias_or_name), None)
            others = [source for alias, source in self._sources(scope) if alias != join.alias_or_name]
            left_names = {name.lower() for source in others for name, _ in self._source_columns(source)}
            names = [name for name, _ in self._source_columns(right) if name.lower() in left_names] if right else []
        return [(name, union(*[self._lookup(source, name)[0] for _, source in self._sources(scope)])) for name in names]

    def _condition(self, node: Any, scope: Any, use: int) -> Dependencies:
        if node is None:
            return {}
        outer, self._prefers_aliases = self._prefers_aliases, use == SORT
        uses = [
            as_indirect(self._dependencies(part, scope, IDENTITY), use) for part in _resolve_ordinals(node, use, scope)
        ]
        self._prefers_aliases = outer
        return union(*uses)

    def _dependencies(self, node: Any, scope: Any, step: int) -> Dependencies:
        """Return the dependencies of an expression; `step` is the transformation applied to its columns."""
        from sqlglot import expressions as exp

        if isinstance(node, exp.Column):
            return compose(self._column(node, scope), step)
        if isinstance(node, exp.Placeholder | exp.Parameter):
            return compose({(PARAMETER, PARAMETER): IDENTITY}, step)
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            inner = next((child for child in scope.subquery_scopes if child.expression is node.unnest()), None)
            columns = [uses for _, uses in self.visit(inner).columns] if inner is not None else []
            return compose(union(*columns), step)
        if isinstance(node, exp.Dot | exp.Bracket | exp.StructExtract) and not isinstance(node.expression, exp.Func):
            return self._item(node, scope, step)
        if isinstance(node, exp.Window) and node.args.get("alias") is not None:
            # `OVER w` with `WINDOW w AS (...)`.
            named = {window.name.lower(): window for window in scope.expression.args.get("windows") or ()}
            definition = named.get(node.args["alias"].name.lower())
            keys = [(key, WINDOW) for key in _window_keys(definition)] if definition is not None else []
        else:
            keys = []
        operands = [*_operand_steps(node, step), *keys]
        merged = union(*[self._dependencies(operand, scope, operand_step) for operand, operand_step in operands])
        return union(merged, as_indirect(merged, CONDITIONAL)) if isinstance(node, exp.Coalesce) else merged

    def _item(self, node: Any, scope: Any, step: int) -> Dependencies:
        """Return the dependencies of a field of a struct or an item of a list, which may be made of several columns."""
        from sqlglot import expressions as exp

        container = node.this.unnest()
        fields = container.expressions if isinstance(container, exp.Struct) else ()
        known = [item.expression for item in fields if isinstance(item, exp.PropertyEQ)]
        name = next((key.name.lower() for key in (node.expression, *node.expressions) if key is not None), "")
        chosen = [value for value in known if value.parent.name.lower() == name]
        if len(chosen) == 1 and len(known) == len(fields):
            return self._dependencies(chosen[0], scope, step)
        uses = self._dependencies(container, scope, stronger_step(TRANSFORMATION, step))
        keys = [] if isinstance(node, exp.Dot) else node.expressions
        keys_uses = [self._dependencies(key, scope, stronger_step(TRANSFORMATION, step)) for key in keys]
        is_part = len(uses) > 1 or isinstance(node, exp.Dot | exp.StructExtract)
        return union(_part(uses) if is_part else uses, *keys_uses)

    def _column(self, column: Any, scope: Any) -> Dependencies:
        name = _fold(column.this, self._dialect)
        if not column.table:
            return self._unqualified(name, scope)
        inner: Any = scope
        while inner is not None:
            # A correlated subquery may refer to tables of the outer query.
            source = next((item for key, item in inner.sources.items() if key.lower() == column.table.lower()), None)
            if source is not None:
                return self._lookup(source, name)[0]
            inner = inner.parent
        # `address.city`, `address.geo.lat` or `t.address.city`: a field of a struct.
        first, second, *_ = [part.name for part in column.parts]
        table = next((item for key, item in scope.sources.items() if key.lower() == first.lower()), None)
        return _part(self._unqualified(first, scope) if table is None else self._lookup(table, second)[0])

    def _unqualified(self, name: str, scope: Any) -> Dependencies:
        """Resolve a column name without a table: a column of a table, an alias, or a column of an unknown table."""
        sources = self._sources(scope)
        matches = [self._lookup(source, name) for _, source in sources]
        exact = [uses for uses, is_exact in matches if is_exact]
        alias = _find(self._selected.get(id(scope), ()), name)
        if alias is not None and (self._prefers_aliases or not _is_select(scope)):
            return alias
        if exact:
            return self._shared_key(exact, scope)
        possible = [uses for uses, is_exact in matches if uses and not is_exact]
        in_select_list = len(self._selected.get(id(scope), ())) < len(getattr(scope.expression, "expressions", ()))
        if alias is not None and (not in_select_list or (self._dialect in _LATERAL_ALIASES and not possible)):
            return alias
        whole_row = next((source for key, source in sources if key.lower() == name.lower()), None)
        if whole_row is not None and not possible:
            return apply_direct(union(*[uses for _, uses in self._source_columns(whole_row)]), TRANSFORMATION)
        outer = self._unqualified(name, scope.parent) if scope.parent is not None and scope.is_subquery else {}
        if alias is not None and self._dialect in _LATERAL_ALIASES:
            possible.append(alias)
        if outer:
            possible.append(outer)
        return possible[0] if len(possible) == 1 else apply_direct(union(*possible), IDENTITY | INFERRED)

    def _lookup(self, source: Any, name: str) -> tuple[Dependencies, bool]:
        """Return the dependencies of a source's column, and whether it is known to exist."""
        columns = self._source_columns(source)
        uses = _find(columns, name)
        if uses is not None:
            return uses, True
        hidden = [uses for other, uses in columns if other == STAR]
        step = IDENTITY if len(hidden) == 1 else IDENTITY | INFERRED
        return union(*[_rename_star(uses, name, step) for uses in hidden]), False

    def _shared_key(self, exact: list[Dependencies], scope: Any) -> Dependencies:
        """Return a column of several tables, the key of `JOIN ... USING (id)`: that of the side that keeps all rows."""
        sides = {join.side for join in scope.expression.args.get("joins") or ()}
        if len(exact) > 1 and "FULL" in sides:
            return union(apply_direct(union(*exact), TRANSFORMATION), as_indirect(union(*exact), CONDITIONAL))
        return exact[-1] if "RIGHT" in sides else exact[0]


def _part(uses: Dependencies) -> Dependencies:
    """Return the dependencies of a part of a value, which is known not to be made of other columns only in a file."""
    is_origin = len(uses) == 1 and all(table.startswith(FILE_PREFIX) for table, _ in uses)
    return apply_direct(uses, TRANSFORMATION if is_origin else TRANSFORMATION | INFERRED)


def _fold(identifier: Any, dialect: str) -> str:
    """Return a name in the case in which the database stores it."""
    fold = _FOLDED.get(dialect)
    name = str(identifier.name)
    return name if fold is None or identifier.args.get("quoted") else fold(name)


def _find(columns: Iterable[NamedColumn], name: str) -> Dependencies | None:
    """Return the dependencies of the column with a name; names are compared without case."""
    return next((uses for other, uses in columns if other.lower() == name.lower() and name != STAR), None)


def _rename(columns: list[NamedColumn], names: list[str]) -> list[NamedColumn]:
    """Rename the first columns by position, if all are known."""
    if not names or any(name == STAR for name, _ in columns):
        return columns
    return [(names[i] if i < len(names) else name, uses) for i, (name, uses) in enumerate(columns)]


def _rename_star(uses: Dependencies, name: str, step: int) -> Dependencies:
    """Replace `*` of unknown tables by the name of one of their columns."""
    return apply_direct(
        {(table, name if column == STAR else column): use for (table, column), use in uses.items()}, step
    )


def _zip_columns(first: list[NamedColumn], second: list[NamedColumn]) -> list[NamedColumn]:
    """Merge the columns of both sides of a union by position."""
    if any(name == STAR for name, _ in (*first, *second)):
        # The positions are unknown.
        merged = apply_direct(union(*[uses for _, uses in second]), IDENTITY | INFERRED)
        return [(name, union(uses, merged)) for name, uses in first]
    return [(name, union(left, right)) for (name, left), (_, right) in zip(first, second, strict=False)]


def _resolve_ordinals(node: Any, use: int, scope: Any) -> list[Any]:
    """Return the parts of a condition; `GROUP BY 1` and `ORDER BY 1` are replaced by the selected expressions."""
    from sqlglot import expressions as exp

    if use not in (GROUP_BY, SORT) or not isinstance(node, exp.Group | exp.Order):
        return [node]
    selected = scope.expression.selects
    parts: list[Any] = []
    for part in node.iter_expressions():
        key = part.this if isinstance(part, exp.Ordered) else part
        is_ordinal = isinstance(key, exp.Literal) and not key.is_string and 1 <= float(key.this) < len(selected) + 1
        parts.append(selected[int(float(key.this)) - 1].unalias() if is_ordinal else part)
    return parts


def _subqueries(node: Any, scope: Any) -> list[Any]:
    """Return the scopes of the subqueries in an expression."""
    from sqlglot import expressions as exp

    inside = {id(query) for query in node.find_all(exp.Query)}
    return [child for child in scope.subquery_scopes if id(child.expression) in inside]


def _all_columns(select: Any, columns: list[NamedColumn]) -> list[tuple[str, int]]:
    """Expand GROUP BY ALL (all non-aggregate columns) and ORDER BY ALL (all columns)."""
    from sqlglot import expressions as exp

    pairs: list[tuple[str, int]] = []
    group, order = select.args.get("group"), select.args.get("order")
    if group is not None and group.args.get("all"):
        pairs += [(node.alias_or_name, GROUP_BY) for node in select.expressions if node.find(exp.AggFunc) is None]
    if order is not None and any(isinstance(key.this, exp.Var) and key.this.name == "ALL" for key in order.expressions):
        pairs += [(name, SORT) for name, _ in columns]
    return pairs


def _is_scope(source: Any) -> bool:
    return hasattr(source, "subquery_scopes")


def _is_select(scope: Any) -> bool:
    from sqlglot import expressions as exp

    return isinstance(scope.expression, exp.Select)


def _set_operation_sides(scope: Any) -> list[Any]:
    """Return the two sides of a set operation; the attribute name depends on the sqlglot version."""
    sides: list[Any] = getattr(scope, "set_operation_scopes", None) or getattr(scope, "union_scopes", None) or []
    return sides


def _operand_steps(node: Any, step: int) -> Iterable[tuple[Any, int]]:
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


def _window_keys(window: Any) -> list[Any]:
    return [*(window.args.get("partition_by") or ()), *[key for key in [window.args.get("order")] if key is not None]]


def _conditional_operands(node: Any, step: int) -> list[tuple[Any, int]] | None:
    """Return the operands of an expression that has conditions, keys or order; None for any other."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Window):
        return [(node.this, step), *[(key, WINDOW) for key in _window_keys(node)]]
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


def source_names(table: Any, dialect: str) -> list[str]:
    """Return the name of a table as written in the query, or `file:` and the path of each file; none for range(5)."""
    from sqlglot import expressions as exp

    function = table.this
    if isinstance(function, exp.Func):
        name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
        if not _FILE_FUNCTION.match(name):
            return []
        argument = next(iter(function.iter_expressions()), None) if not isinstance(function, exp.Anonymous) else None
        argument = argument if argument is not None else next(iter(function.expressions), None)
        return [f"{FILE_PREFIX}{item.this}" for item in argument.find_all(exp.Literal)] if argument is not None else []
    name = ".".join(_fold(part, dialect) for part in table.parts)
    return [f"{FILE_PREFIX}{table.name}" if len(table.parts) == 1 and _FILE_NAME.search(name) else name]
