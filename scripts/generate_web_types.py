"""Generate web/src/api/types.ts from the msgspec Structs of the JSON documents behind the web UI.

python scripts/generate_web_types.py            write the file
python scripts/generate_web_types.py --check    fail if the committed file is stale
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args

from msgspec import Struct, inspect

from clew.api.ui_api import NoPreviousRun
from clew.api.v2.entities import FacetHistory
from clew.api.v2.notebook_runs import NotebookRunList
from clew.pipeline.status import PipelineStatus
from clew.query.diff import ChangeKind, RunChanges
from clew.query.graph.nodes import NodeKind
from clew.query.model import CellState, EdgeType, State
from clew.query.pages.entities import DatasetView, JobView, RunView
from clew.query.pages.graph import LineageGraphView
from clew.query.pages.lists import (
    Activity,
    DatasetListView,
    EventList,
    EventText,
    JobListView,
    RunListView,
    SearchResultKind,
    SearchResults,
)
from clew.query.pages.run_page_model import Flag, RunPage

ObjectType = inspect.StructType | inspect.DataclassType

OUTPUT: Final = Path(__file__).parents[1] / "web" / "src" / "api" / "types.ts"

# The JSON documents that the web UI fetches. The Structs inside them are found from here.
DOCUMENTS: Final[tuple[type[Struct], ...]] = (
    RunPage,
    NotebookRunList,
    Activity,
    DatasetListView,
    JobListView,
    RunListView,
    DatasetView,
    JobView,
    RunView,
    RunChanges,
    NoPreviousRun,
    LineageGraphView,
    SearchResults,
    EventList,
    EventText,
    FacetHistory,
    PipelineStatus,
)

# msgspec does not report the names of Literal types.
LITERALS: Final[dict[str, Any]] = {
    "RunState": State,
    "CellState": CellState,
    "EdgeType": EdgeType,
    "EdgeFlag": Flag,
    "ChangeKind": ChangeKind,
    "NodeKind": NodeKind,
    "SearchResultKind": SearchResultKind,
}

SCALARS: Final[dict[type[inspect.Type], str]] = {
    inspect.AnyType: "unknown",
    inspect.BoolType: "boolean",
    inspect.DateTimeType: "string",
    inspect.FloatType: "number",
    inspect.IntType: "number",
    inspect.NoneType: "null",
    inspect.RawType: "unknown",
    inspect.StrType: "string",
}

HEADER: Final = """\
/** Types of the JSON documents behind the web UI.
 *
 * Generated from the msgspec Structs by scripts/generate_web_types.py. Do not edit.
 */
"""


def main() -> int:
    """Write the file, or compare it with what would be written."""
    text = generate()
    if "--check" not in sys.argv[1:]:
        OUTPUT.write_text(text, encoding="utf-8")
        return 0
    if OUTPUT.is_file() and OUTPUT.read_text(encoding="utf-8") == text:
        return 0
    print(f"{OUTPUT} is stale: run python scripts/{Path(__file__).name}", file=sys.stderr)
    return 1


def generate() -> str:
    """Return the content of types.ts."""
    literals = [f"export type {name} = {_union(get_args(alias))};" for name, alias in LITERALS.items()]
    structs = {struct.cls.__name__: struct for struct in _collect(inspect.multi_type_info(DOCUMENTS))}
    return "\n\n".join([HEADER.rstrip(), "\n".join(literals), *map(_interface, structs.values())]) + "\n"


def _collect(types: Iterable[inspect.Type]) -> list[ObjectType]:
    """Return all Structs and dataclasses reachable from `types`, each once, outer before inner."""
    found: dict[type, ObjectType] = {}
    names: dict[str, type] = {}
    queue = list(types)
    for node in queue:
        if isinstance(node, ObjectType):
            if node.cls in found:
                continue
            if (other := names.setdefault(node.cls.__name__, node.cls)) is not node.cls:
                raise SystemExit(f"{other} and {node.cls} have the same name: rename one of them.")
            found[node.cls] = node
            queue.extend(field.type for field in node.fields)
        else:
            queue.extend(_inner(node))
    return list(found.values())


def _inner(node: inspect.Type) -> tuple[inspect.Type, ...]:
    match node:
        case inspect.UnionType(types=types):
            return types
        case inspect.DictType(value_type=value):
            return (value,)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return (item,)
        case _:
            return ()


def _interface(node: ObjectType) -> str:
    config = getattr(node.cls, "__struct_config__", None)
    omits_defaults = config is not None and config.omit_defaults
    lines = [f"  {_property(field, is_optional=omits_defaults and not field.required)};" for field in node.fields]
    doc = (node.cls.__doc__ or "").strip().splitlines()
    comment = f"/** {doc[0]} */\n" if doc else ""
    return "\n".join([f"{comment}export interface {node.cls.__name__} {{", *lines, "}"])


def _property(field: inspect.Field, *, is_optional: bool) -> str:
    kind = field.type
    if is_optional and field.default is None and isinstance(kind, inspect.UnionType):
        # A default is never encoded, so None is not among the values.
        kind = inspect.UnionType(tuple(t for t in kind.types if not isinstance(t, inspect.NoneType)))
    return f"{field.encode_name}{'?' if is_optional else ''}: {_type(kind)}"


def _type(node: inspect.Type) -> str:
    match node:
        case inspect.StructType(cls=cls) | inspect.DataclassType(cls=cls):
            text = cls.__name__
        case inspect.LiteralType(values=values):
            names = (name for name, alias in LITERALS.items() if set(get_args(alias)) == set(values))
            text = next(names, _union(values))
        case inspect.UnionType(types=types):
            texts = list(map(_type, types))
            text = "unknown" if "unknown" in texts else " | ".join(texts)
        case inspect.DictType(key_type=key, value_type=value):
            record = f"Record<{_type(key)}, {_type(value)}>"
            text = f"Partial<{record}>" if isinstance(key, inspect.LiteralType) else record
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            text = f"({_type(item)})[]" if isinstance(item, inspect.UnionType) else f"{_type(item)}[]"
        case _:
            text = SCALARS.get(type(node), "")
    if not text:
        raise SystemExit(f"{node} has no TypeScript type yet: extend {Path(__file__).name}.")
    return text


def _union(values: tuple[Any, ...]) -> str:
    return " | ".join(map(json.dumps, values))


if __name__ == "__main__":
    sys.exit(main())
