"""Visibility: the part of an index that is shown to a key limited to namespaces.

Each table and view of the index is replaced, for one connection, by a temporary view of the same name. It has no rows
of other namespaces, except the ends of edges: they have an opaque name instead. So no query has to filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import product
from typing import Any, Final

import msgspec
from msgspec import Struct

from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE
from clew.index.encoding import IS_ANNOTATIONS, KEY_SEPARATOR, entity_key

# Namespace of jobs, datasets and columns that are not shown.
HIDDEN_NAMESPACE: Final = "(hidden)"
_OPAQUE_DIGITS = 16
# Members of a reference to a dataset or job that are kept if the reference is masked.
_KEPT_MEMBERS = frozenset({"type", "inputs"})
_KEPT_OF_TRANSFORMATION = frozenset({"type", "subtype", "masking"})
_COLUMN_MEMBERS = frozenset({"field", "column"})


class NameMask:
    """Decides which namespaces are shown, and replaces names of all others.

    `secret` keeps opaque names from being computed from guessed names. They are stable as long as the index exists.
    """

    def __init__(self, prefixes: Sequence[str], secret: str) -> None:
        self.prefixes, self.secret = tuple(prefixes), secret
        self._opaque_name = lru_cache(10_000)(self._compute_opaque_name)

    def is_visible(self, namespace: str | None) -> bool:
        """Return whether a namespace begins with one of the prefixes."""
        return namespace is not None and namespace.startswith(self.prefixes)

    def is_visible_io(self, key: str) -> bool:
        """Return whether the dataset in the key of an input or output is visible."""
        return self.is_visible(key.partition(KEY_SEPARATOR)[2])

    def opaque_name(self, *parts: str | None) -> str:
        """Return the name that is shown instead of a name, or of a column."""
        return self._opaque_name(KEY_SEPARATOR.join(part or "" for part in parts))

    def _compute_opaque_name(self, text: str) -> str:
        digest = sha256(f"{self.secret}{KEY_SEPARATOR}{text}".encode(errors="surrogatepass")).hexdigest()
        return f"hidden-{digest[:_OPAQUE_DIGITS]}"

    def mask_names(self, items: str | None) -> str | None:
        """Mask a JSON list of names, each a pair or an object."""
        if items is None:
            return None
        return msgspec.json.encode([self._mask_pair(item) for item in msgspec.json.decode(items)]).decode()

    def mask_json(self, document: bytes) -> bytes:
        """Mask all references to datasets and jobs in a JSON document; return it unchanged if there are none."""
        if b"amespace" not in document and b"\\u" not in document:
            return document
        try:
            value = msgspec.json.decode(document)
        except (msgspec.DecodeError, RecursionError):
            return b"{}"
        masked = self._mask_value(value)
        return document if masked == value else msgspec.json.encode(masked)

    def _mask_pair(self, item: Any) -> Any:
        if isinstance(item, list) and len(item) >= 2 and not self.is_visible(item[0]):
            return [HIDDEN_NAMESPACE, self.opaque_name(item[0], item[1])]
        return self._mask_value(item)

    def _mask_value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._mask_value(item) for item in value]
        if not isinstance(value, dict):
            return value
        namespace = value.get("namespace")
        if not isinstance(namespace, str) or self.is_visible(namespace):
            return {key: self._mask_value(item) for key, item in value.items()}
        members = {key: self._mask_value(item) for key, item in value.items() if key in _KEPT_MEMBERS}
        transformations = value.get("transformations")
        if isinstance(transformations, list):
            members["transformations"] = list(map(_without_text, transformations))
        names = {key: self.opaque_name("", value[key]) for key in _COLUMN_MEMBERS if isinstance(value.get(key), str)}
        name = value.get("name")
        masked = self.opaque_name(namespace, name if isinstance(name, str) else "")
        return {"namespace": HIDDEN_NAMESPACE, "name": masked, **names, **members}


def _without_text(transformation: Any) -> dict[str, Any]:
    """Return a transformation without its description, which may have names."""
    items = transformation.items() if isinstance(transformation, dict) else ()
    return {key: value for key, value in items if key in _KEPT_OF_TRANSFORMATION}


class _TableRule(Struct, frozen=True):
    """How a table is limited; names are given by the prefix of their columns, such as `job_`.

    `own`: rows have a visible name. `ends`: names that are masked, and looked up. `masked`: other masked names.
    `cleared`: values instead of those that belong to a hidden end. `names`: columns with lists of names.
    """

    own: str | None = None
    ends: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    cleared: tuple[tuple[str, str, str], ...] = ()
    names: tuple[str, ...] = ()
    condition: str = "true"


# Views call the functions below, which each database provides under its own qualified names.
_FUNCTIONS = re.compile(r"\b(is_visible|is_visible_io|opaque_name|mask_names)(?=\()")
_IS_VISIBLE = re.compile(r"\bis_visible\(([\w.]+)\)")
_IS_VISIBLE_SESSION = "exists (select 1 from runs where runs.session_id = source.session_id)"
_ANNOTATIONS_KEY = entity_key(ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, None)
_IS_VISIBLE_FACET = f"""case when kind in ('dataset', 'job') then is_visible(entity_key)
or entity_key = '{_ANNOTATIONS_KEY}'
when kind = 'run' then exists (select 1 from runs where runs.run_uuid = entity_key)
else is_visible_io(entity_key) end"""  # noqa: S608
# Lineage to a hidden dataset has edge sets of its own, whose columns are masked.
HIDDEN_EDGE_SET: Final = "hidden "
VISIBLE_EDGES: Final = "visible_edge_sets"
HIDDEN_EDGES: Final = "hidden_edge_sets"
_HIDDEN_EDGE_SET_ID = f"case edge_set_id when '' then '' else '{HIDDEN_EDGE_SET}' || edge_set_id end"
_RULES: Final[dict[str, _TableRule]] = {
    "meta": _TableRule(),
    "batches": _TableRule(),
    "events": _TableRule(),
    "zstd_dictionaries": _TableRule(),
    # Found by ids only.
    "schemas": _TableRule(),
    "static_lineage": _TableRule(),
    # Without namespaces: the lake has them.
    "rejected": _TableRule(condition="false"),
    "run_events": _TableRule(condition="false"),
    "runs": _TableRule("job_", masked=("parent_job_", "root_job_")),
    "jobs": _TableRule("", masked=("parent_job_",)),
    "referenced_runs": _TableRule("job_"),
    "referenced_jobs": _TableRule(""),
    "job_declarations": _TableRule("job_", names=("inputs", "outputs")),
    "dataset_declarations": _TableRule("dataset_"),
    "datasets": _TableRule("", masked=("renamed_from_",), condition=f"not {IS_ANNOTATIONS}"),
    "renames": _TableRule(ends=("", "to_")),
    "symlinks": _TableRule("", names=("identifiers",)),
    "run_io": _TableRule(
        ends=("dataset_", "job_"),
        cleared=(
            ("dataset_", "dataset_version", "''"),
            ("dataset_", "schema_id", "null"),
            ("dataset_", "row_count", "null"),
            ("job_", "session_id", "null"),
        ),
    ),
    "reported_job_edges": _TableRule(ends=("job_", "dataset_")),
    "lineage_assertions": _TableRule(
        ends=("dataset_", "job_"),
        cleared=(
            ("dataset_", "dataset_version", "''"),
            ("dataset_", "edge_set_id", _HIDDEN_EDGE_SET_ID),
            ("job_", "session_id", "null"),
        ),
    ),
    "job_dependency_assertions": _TableRule(ends=("job_",), names=("upstream",)),
    "quality_assertions": _TableRule("dataset_", masked=("job_",)),
    "cell_executions": _TableRule(condition=_IS_VISIBLE_SESSION),
    "operations": _TableRule(condition=_IS_VISIBLE_SESSION),
    "facets": _TableRule(condition=_IS_VISIBLE_FACET),
}
_FIRST_VISIBLE = """(select {part} from {table} other where other.canonical_namespace = source.canonical_namespace
    and other.canonical_name = source.canonical_name and is_visible(other.namespace)
    order by other.namespace, other.name limit 1)"""
_TABLE = re.compile(r"create table if not exists (\w+)")
_VIEW = re.compile(r"create (?:view if not exists|or replace view) (\w+) as\n(.*?);\n", re.DOTALL)


def limited_views(
    schema: str,
    columns_of: Callable[[str], Mapping[str, str]],
    source: str,
    function_prefix: str = "",
    is_visible: Callable[[str], str] | None = None,
) -> Iterator[str]:
    """Yield the statements that create the temporary views of all tables and views of a schema.

    `columns_of`: types of the columns of a table, empty for no casts. `source`: name of the schema with the tables.
    `function_prefix`: qualifies the functions. `is_visible`: a condition on a column that replaces the function of
    that name.
    """
    for table in _TABLE.findall(schema):
        for view, query in _limited_table(table, columns_of(table), f"{source}.{table}"):
            condition = query if is_visible is None else _IS_VISIBLE.sub(lambda call: is_visible(call[1]), query)
            yield f"create temp view {view} as " + _FUNCTIONS.sub(rf"{function_prefix}\1", condition)
    for view, query in _VIEW.findall(schema):
        yield f"create temp view {view} as {query}"


def _limited_table(table: str, columns: Mapping[str, str], source: str) -> Iterator[tuple[str, str]]:
    """Yield the names and queries of the views of a table."""
    if table == "edge_sets":
        yield from _limited_edge_sets(source)
    elif table == "dataset_aliases":
        yield table, _limited_aliases(source)
    else:
        yield table, " union all ".join(_select(_RULES[table], columns, source))


def _select(rule: _TableRule, columns: Mapping[str, str], table: str) -> Iterator[str]:
    """Yield a query for each combination of visible and hidden ends.

    The namespace of a hidden end is constant, so that a lookup by name reads only the query in which it is visible.
    All values have the type of their column: otherwise SQLite computes the whole view for each query.
    """
    own = "true" if rule.own is None else f"is_visible(source.{rule.own}namespace)"
    for hidden in product((False, True), repeat=len(rule.ends)):
        values = {column: f'source."{column}"' for column in columns}
        values |= {column: f"mask_names(source.{column})" for column in rule.names}
        conditions = [own, rule.condition]
        for prefix in rule.masked:
            namespace, name = _masked_if_hidden(f"source.{prefix}namespace", f"source.{prefix}name")
            values |= {f"{prefix}namespace": namespace, f"{prefix}name": name}
        for prefix, is_hidden in zip(rule.ends, hidden, strict=True):
            namespace, name = f"source.{prefix}namespace", f"source.{prefix}name"
            if is_hidden:
                values |= {f"{prefix}namespace": _HIDDEN, f"{prefix}name": f"opaque_name({namespace}, {name})"}
                values |= {column: value for end, column, value in rule.cleared if end == prefix}
                conditions.append(f"{namespace} is not null and not is_visible({namespace})")
            else:
                conditions.append(f"({namespace} is null or is_visible({namespace}))")
        selected = ", ".join(f'{_cast(values[column], column, kind)} as "{column}"' for column, kind in columns.items())
        used = [condition for condition in conditions if condition != "true"]
        yield f"select {selected} from {table} source where {' and '.join(used) or 'true'}"  # noqa: S608


def _cast(value: str, column: str, kind: str) -> str:
    return value if not kind or value == f'source."{column}"' else f"cast({value} as {kind})"


_HIDDEN = f"'{HIDDEN_NAMESPACE}'"
_MASKED_COLUMN = "case when {0} is null then null else opaque_name('', {0}) end"


def _masked_if_hidden(namespace: str, name: str) -> tuple[str, str]:
    is_shown = f"{namespace} is null or is_visible({namespace})"
    return (
        f"case when {is_shown} then {namespace} else {_HIDDEN} end",
        f"case when {is_shown} then {name} else opaque_name({namespace}, {name}) end",
    )


def _limited_edge_sets(table: str) -> Iterator[tuple[str, str]]:
    """Yield views of the edges to visible and to hidden datasets, for lookups by id, and the view of both."""
    namespace, name = _masked_if_hidden("source_namespace", "source_name")
    masked_source = _MASKED_COLUMN.format("source_column")
    for view, column, text in (
        (VISIBLE_EDGES, '"column"', "case when is_visible(source_namespace) then description end"),
        (HIDDEN_EDGES, _MASKED_COLUMN.format('"column"'), "null"),
    ):
        yield (
            view,
            f"""select edge_set_id, edge_position, {column} as "column",
            {namespace} as source_namespace, {name} as source_name,
            case when is_visible(source_namespace) then source_column else {masked_source} end as source_column,
            type, subtype, {text} as description, masking from {table}""",  # noqa: S608
        )
    names = 'edge_set_id, edge_position, "column", source_namespace, source_name, source_column, type, subtype'
    hidden_names = names.replace("edge_set_id", f"'{HIDDEN_EDGE_SET}' || edge_set_id", 1)
    yield (
        "edge_sets",
        f"""select {names}, description, masking from {table} where is_visible(source_namespace)
        union all select {names}, description, masking from {VISIBLE_EDGES} where source_namespace = {_HIDDEN}
        union all select {hidden_names}, description, masking from {HIDDEN_EDGES}""",  # noqa: S608
    )


def _limited_aliases(table: str) -> str:
    """Return a group of aliases under its canonical name, or if that is hidden, under its first visible name."""
    name = ", ".join(
        f"{value} as {column}"
        for value, column in zip(
            _masked_if_hidden("source.namespace", "source.name"), ("namespace", "name"), strict=True
        )
    )
    canonical = ", ".join(
        f"coalesce(case when is_visible(source.canonical_namespace) then source.canonical_{part} end, "
        f"{_FIRST_VISIBLE.format(part=part, table=table)}, {hidden}) as canonical_{part}"
        for part, hidden in (
            ("namespace", _HIDDEN),
            ("name", "opaque_name(source.canonical_namespace, source.canonical_name)"),
        )
    )
    return f"select {name}, {canonical} from {table} source"  # noqa: S608
