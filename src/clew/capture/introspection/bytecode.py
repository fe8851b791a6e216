"""Statements, operands and definitions of a code object, from its bytecode; no source is needed."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from clew.capture.introspection.user_code import is_user_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType

Span = tuple[int, int]

_MAX_CACHED = 5000
_MAX_DECODED = 32
WHOLE_CODE: Span = (0, sys.maxsize)

_STATEMENT_ENDS = (
    "STORE_NAME",
    "STORE_FAST",
    "STORE_GLOBAL",
    "STORE_DEREF",
    "STORE_SUBSCR",
    "STORE_ATTR",
    "POP_TOP",
    "RETURN_VALUE",
    "RETURN_CONST",
)
# Instructions that assign, return or display a value.
_ASSIGNMENTS = frozenset(["STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_FAST"])
_DISPLAYS = frozenset(["RETURN_VALUE", "YIELD_VALUE", "POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1"])
_DISPLAY_FUNCTIONS = frozenset(["print", "display"])
# Instructions that put a value into a tuple, another container or a text.
_BUILDERS = ("BUILD_", "FORMAT_", "CONVERT_VALUE")
_CONTAINER_STORES = ("STORE_SUBSCR", "STORE_ATTR")
_LOADS = ("LOAD_NAME", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK")
_ITEM_READS = ("BINARY_SUBSCR", "BINARY_OP_SUBSCR")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
# `values.append(f(x))` has no store instruction, but changes `values`.
_MUTATORS = frozenset(["add", "append", "appendleft", "extend", "extendleft", "insert", "setdefault", "update"])
_CALLS = ("CALL", "CALL_KW")
_OPERATORS = {"BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2}
# Instructions between the arguments of a call and the call.
_CALL_PREFIXES = ("PRECALL", "KW_NAMES")
# `len(df)` and `df.shape` depend on the size of a frame, not on its values.
_METADATA_ATTRS = frozenset(["columns", "dtypes", "index", "ndim", "shape", "size"])


class NameLoad(NamedTuple):
    """A name and the offset at which it is loaded; `is_item_read` if only an item or an attribute of it is used."""

    offset: int
    name: str
    is_item_read: bool = False


class BytecodeStatement(NamedTuple):
    """Instructions of one statement and the names it loads and stores."""

    start: int
    end: int
    loads: tuple[NameLoad, ...]
    stores: tuple[str, ...]
    # Attribute loads: names loaded after `map` are arguments of `map`.
    attributes: tuple[NameLoad, ...] = ()


_R = TypeVar("_R")
_P = ParamSpec("_P")


def cached_by_code(
    function: Callable[Concatenate[CodeType, _P], _R],
) -> Callable[Concatenate[CodeType, _P], _R]:
    """Cache a function of a code object, keyed by id(code), since hashing code hashes all its constants.

    A full cache is cleared: a cell is compiled again each time it runs, so old code objects pile up.
    """
    # The value holds the code, so that its id stays valid.
    cache: dict[Any, tuple[CodeType, _R]] = {}

    @functools.wraps(function)
    def cached(code: CodeType, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = (id(code), *args)
        entry = cache.get(key)
        if entry is None:
            if len(cache) >= _MAX_CACHED:
                cache.clear()
            entry = cache[key] = (code, function(code, *args, **kwargs))
        return entry[1]

    return cached


# The instructions of the codes that ran last: a call site needs those around it, and decoding a script takes long.
_decoded: dict[int, tuple[CodeType, list[int], list[dis.Instruction]]] = {}


def _instructions(code: CodeType, span: Span = WHOLE_CODE) -> list[dis.Instruction]:
    """Return the instructions within a span."""
    entry = _decoded.get(id(code))
    if entry is None:
        if len(_decoded) >= _MAX_DECODED:
            _decoded.clear()
        steps = list(dis.get_instructions(code))
        entry = _decoded[id(code)] = (code, [step.offset for step in steps], steps)
    _, offsets, steps = entry
    return steps[bisect_left(offsets, span[0]) : bisect_right(offsets, span[1])]


@cached_by_code
def bytecode_statements(code: CodeType) -> list[BytecodeStatement]:
    """Return the statements of a code object in order."""
    return list(_split_statements(code))


def _split_statements(code: CodeType) -> Iterator[BytecodeStatement]:
    start, stores_left = 0, 1
    loads: list[NameLoad] = []
    attributes: list[NameLoad] = []
    stores: list[str] = []
    before: list[dis.Instruction] = []
    for instruction in _instructions(code):
        name = instruction.opname
        if name in _LOADS or "LOAD_FAST" in name:
            loads += [NameLoad(instruction.offset, loaded) for loaded in _loaded_names(instruction)]
            if len(loads) > 1 and loads[-2].name == "len":
                del loads[-2:]
        elif name in _ATTRIBUTES:
            attributes.append(NameLoad(instruction.offset, str(instruction.argval)))
            _apply_attribute(instruction.argval, loads, stores, before)
        elif name in _ITEM_READS:
            _mark_item_read(loads, before)
        elif name == "UNPACK_SEQUENCE":
            # `x, y = ...` has two stores in one statement.
            stores_left += int(instruction.arg or 1) - 1
        elif name == "UNPACK_EX":
            # `first, *rest = ...`: the low byte counts the names before the star, the high byte those after it.
            before_star, after_star = (instruction.arg or 0) & 0xFF, (instruction.arg or 0) >> 8
            stores_left += before_star + after_star
        if name in _STATEMENT_ENDS:
            stores += _stored_names(code, instruction, start, loads)
            stores_left -= 1
            if stores_left < 1:
                yield BytecodeStatement(start, instruction.offset, tuple(loads), tuple(stores), tuple(attributes))
                start, stores_left = instruction.offset + 2, 1
                loads, attributes, stores, before = [], [], [], []
                continue
        before.append(instruction)


def _apply_attribute(name: str, loads: list[NameLoad], stores: list[str], before: list[dis.Instruction]) -> None:
    if loads and name in _METADATA_ATTRS:
        loads.pop()
    elif loads and name in _MUTATORS:
        # The receiver may be an item: `values[k].append(x)`.
        stores.append(_first_load(loads, _top_of_stack_span([*before])) or loads[-1].name)
    elif loads and before[-1].offset == loads[-1].offset:
        loads[-1] = loads[-1]._replace(is_item_read=True)


def _mark_item_read(loads: list[NameLoad], before: list[dis.Instruction]) -> None:
    """Mark the load of `df` in `df["a"]`."""
    steps = [*before]
    key = _top_of_stack_span(steps)
    container = _top_of_stack_span(steps) if key is not None else None
    for position, load in enumerate(loads):
        if container == (load.offset, load.offset):
            loads[position] = load._replace(is_item_read=True)


def _stored_names(code: CodeType, store: dis.Instruction, start: int, loads: list[NameLoad]) -> list[str]:
    if store.opname in _CONTAINER_STORES:
        # `res[k] = value`, `res[k]["m"] = value` and `res.x = value` change `res`.
        container = _first_load(loads, store_target_span(code, store.offset, start))
        return [container] if container is not None else []
    return [str(store.argval)] if store.opname.startswith("STORE_") and store.argval is not None else []


def _first_load(loads: list[NameLoad], span: Span | None) -> str | None:
    return next((load.name for load in loads if span is not None and span[0] <= load.offset <= span[1]), None)


def _loaded_names(instruction: dis.Instruction) -> list[str]:
    """Return the names one instruction loads: since Python 3.13 it may load two, or store one and load another."""
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return [str(name) for name in (names[1:] if instruction.opname.startswith("STORE_") else names)]


def statement_at(statements: list[BytecodeStatement], instruction: int) -> BytecodeStatement | None:
    """Return the statement of an instruction."""
    position = bisect_right(statements, instruction, key=lambda statement: statement.start) - 1
    return statements[position] if position >= 0 else None


@cached_by_code
def executes_once(code: CodeType, instruction: int) -> bool:
    """Return whether a call executes an instruction at most once, and it assigns only local variables."""
    running = statement_at(bytecode_statements(code), instruction)
    if running is None or _is_reentrant(code) or _is_in_loop(code, instruction):
        return False
    parameter_count = code.co_argcount + code.co_kwonlyargcount
    parameter_count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return set(_assigned_names(running)) <= set(code.co_varnames[parameter_count:])


@cached_by_code
def is_result_kept(code: CodeType, instruction: int) -> bool:
    """Return whether user code assigns the result of an instruction to a name, returns it or displays it."""
    if code.co_name == "<lambda>" or not is_user_code(code):
        return False
    # The number of values above the result on the stack, and whether the result is an item of a display.
    above, is_item, target = 0, False, 0
    for step in _instructions(code, (instruction + 1, sys.maxsize)):
        name = step.opname
        if step.offset < target or name in _CALL_PREFIXES:
            continue
        if name == "JUMP_FORWARD" or (name.endswith("_OR_POP") and not above):
            # `x = df["a"].sum() if known else 0` and `df["a"].sum() or 0`
            target = step.argval
        elif name == "SWAP":
            # `x, y = df["a"].sum(), df["a"].max()`
            above = (step.arg or 0) - 1 if not above else 0 if above == (step.arg or 0) - 1 else above
        elif name == "COPY" and step.arg == above + 1:
            # `x = y = ...` and `(x := ...)`
            return not is_item
        else:
            popped, pushed = _stack_use(step)
            if popped > above:
                if not name.startswith(_BUILDERS):
                    return _keeps_operand(code, step, is_item=is_item)
                above, is_item = 0, True
            elif step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
                return False
            else:
                above += pushed - popped
    return False


def _keeps_operand(code: CodeType, step: dis.Instruction, *, is_item: bool) -> bool:
    """Return whether an instruction assigns, returns, displays or prints its operand, or the item of a display."""
    name = step.opname
    if name in _CALLS:
        return _called_name(code, step.offset) in _DISPLAY_FUNCTIONS
    if name == "UNPACK_SEQUENCE":
        return is_item
    # Later uses of a container that a variable holds find the frame of the item.
    return name in _DISPLAYS or (name.partition("__")[0] in _ASSIGNMENTS or name.startswith("STORE_FAST")) > is_item


def _stack_use(step: dis.Instruction) -> tuple[int, int]:
    """Return how many values an instruction pops from the stack and pushes."""
    name, effect = step.opname, dis.stack_effect(step.opcode, step.arg, jump=False)
    if name in _CALLS:
        # The callable and its receiver, and the names of keywords.
        popped = (step.arg or 0) + 2 + (name == "CALL_KW")
        return popped, 1
    if name.startswith("STORE_"):
        stored = name.count("STORE_FAST") or -effect
        return stored, stored + effect
    if name in ("COPY", "PUSH_NULL") or (name.startswith("LOAD_") and name not in _ATTRIBUTES):
        return 0, effect
    if name in (*_ATTRIBUTES, "UNPACK_SEQUENCE", "YIELD_VALUE"):
        return 1, effect + 1
    pushed = 0 if name in _DISPLAYS else 1
    return pushed - effect, pushed


def _called_name(code: CodeType, call: int) -> str | None:
    """Return the name of the function of a call with positional arguments; None for a method."""
    spans = operand_spans(code, call)
    if not spans:
        return None
    # At most a load, its prefixes and a null.
    before = _instructions(code, (spans[0][0] - 32, spans[0][0] - 1))
    loads = [step for step in before if step.opname not in ("PUSH_NULL", "NOP", "EXTENDED_ARG", "CACHE")]
    return str(loads[-1].argval) if loads and loads[-1].opname in ("LOAD_NAME", "LOAD_GLOBAL") else None


def _is_reentrant(code: CodeType) -> bool:
    """Return whether calls may overlap (generators, coroutines, recursion) or the code is a cell with global names."""
    suspendable = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & suspendable
    return not is_function or code.co_name in (*code.co_names, *code.co_freevars)


def _is_in_loop(code: CodeType, instruction: int) -> bool:
    return any(start <= instruction <= end for start, end in _loops(code))


@cached_by_code
def _loops(code: CodeType) -> list[Span]:
    jumps = [jump for jump in _instructions(code) if jump.opcode in dis.hasjrel or jump.opcode in dis.hasjabs]
    return [(jump.argval, jump.offset) for jump in jumps if jump.argval <= jump.offset]


def _assigned_names(statement: BytecodeStatement) -> tuple[str, ...]:
    # A statement without a store is assumed to change the first name it loads.
    return statement.stores or tuple(load.name for load in statement.loads[:1])


def definition_spans(
    statements: list[BytecodeStatement],
    running: BytecodeStatement,
    loads: Iterable[NameLoad],
    can_carry: Callable[[NameLoad], bool],
) -> list[Span]:
    """Return the spans of earlier statements that define the loaded names, followed transitively.

    A load for which `can_carry` is false is not followed.
    """
    spans, wanted = [], {load.name for load in loads if can_carry(load)}
    for statement in reversed([earlier for earlier in statements if earlier.end < running.start]):
        if not wanted.isdisjoint(_assigned_names(statement)):
            spans.append((statement.start, statement.end))
            wanted.update(load.name for load in statement.loads if can_carry(load))
    return spans


def store_target_span(code: CodeType, instruction: int, start: int) -> Span | None:
    """Return the span that computes `df.loc[...]` in `df.loc[...] = value`; `start` is that of the statement."""
    if dis.opname[code.co_code[instruction]] not in _CONTAINER_STORES:
        return None
    positions = source_positions(code)
    whole = positions[instruction // 2]
    inside = [
        offset
        for offset in range(start, instruction, 2)
        if None not in (*whole, *positions[offset // 2]) and _is_inside(positions[offset // 2], whole)
    ]
    return (inside[0], instruction) if inside else None


@cached_by_code
def source_positions(code: CodeType) -> list[Any]:
    """Return the positions of all instructions of a code object."""
    return list(code.co_positions())


def _is_inside(inner: Any, outer: Any) -> bool:
    line, last_line, column, last_column = inner
    first, last, start, end = outer
    return bool((first, start) <= (line, column) and (last_line, last_column) <= (last, end))


@cached_by_code
def operand_spans(code: CodeType, instruction: int) -> list[Span]:
    """Return the spans that compute the operands of an operator or the arguments of a call; empty if unknown."""
    # The offset of a running call is that of its last inline cache entry.
    running = statement_at(bytecode_statements(code), instruction)
    first = running.start if running is not None else 0
    before = _instructions(code, (first, instruction))
    consumer = before.pop()
    count = int(consumer.arg or 0) if consumer.opname in _CALLS else _OPERATORS.get(consumer.opname, 0)
    while before and before[-1].opname in _CALL_PREFIXES:
        before.pop()
    if consumer.opname == "CALL_KW":
        # The tuple of keyword names is on top of the arguments.
        before.pop()
    spans: list[Span] = []
    for _ in range(count):
        span = _top_of_stack_span(before)
        if span is None:
            return []
        spans.insert(0, span)
    return spans


def mapping_value_spans(code: CodeType, span: Span) -> list[Span]:
    """Return the spans that compute the values of a dict literal `{"a": ..., "b": ...}`, in order."""
    before = _instructions(code, span)
    builder = before.pop()
    is_by_names = builder.opname == "BUILD_CONST_KEY_MAP"
    if not is_by_names and builder.opname != "BUILD_MAP":
        return []
    if is_by_names:
        # The tuple of keys is on top of the values.
        before.pop()
    count = int(builder.arg or 0) * (1 if is_by_names else 2)
    spans = [_top_of_stack_span(before) for _ in range(count)][::-1]
    values = spans if is_by_names else spans[1::2]
    return [value for value in values if value is not None] if None not in values else []


def _top_of_stack_span(before: list[dis.Instruction]) -> Span | None:
    """Return the span that computes the top of the stack, and pop it from `before`; None if there are branches."""
    height, end = 0, before[-1].offset if before else 0
    while before and height < 1:
        instruction = before.pop()
        # A jump target within a value means a conditional expression.
        is_joined = instruction.is_jump_target and bool(before)
        if is_joined or instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            return None
        height += dis.stack_effect(instruction.opcode, instruction.arg)
        if height == 1:
            return instruction.offset, end
    return None


def nested_codes(code: CodeType, spans: list[Span]) -> Iterator[CodeType]:
    """Yield the code of comprehensions and functions within spans, recursively."""
    for offset, nested in _code_constants(code):
        if is_within(offset, spans):
            yield nested
            yield from nested_codes(nested, [WHOLE_CODE])


@cached_by_code
def _code_constants(code: CodeType) -> list[tuple[int, CodeType]]:
    """Return the code objects that a code object loads, with the offsets of the instructions."""
    if not any(inspect.iscode(constant) for constant in code.co_consts):
        return []
    return [(step.offset, step.argval) for step in _instructions(code) if inspect.iscode(step.argval)]


def constant_ids_within(code: CodeType, span: Span) -> frozenset[int]:
    """Return the ids of constants loaded within a span, including items of tuples."""
    loaded = [instruction.argval for instruction in _instructions(code, span) if instruction.opname in _CONSTANTS]
    items = [item for constant in loaded if isinstance(constant, tuple) for item in constant]
    return frozenset(map(id, (*loaded, *items)))


def is_within(offset: int, spans: list[Span]) -> bool:
    """Return whether an offset is in one of the spans."""
    return any(first <= offset <= last for first, last in spans)


class LiteralSite(NamedTuple):
    """The instruction that loads or builds a list or tuple literal, and whether its value is stored in a variable."""

    offset: int
    is_stored: bool


@cached_by_code
def literal_sites(code: CodeType) -> dict[tuple[int, ...], list[LiteralSite]]:
    """Return where the list and tuple literals of a code object are, by the ids of their items."""
    sites: dict[tuple[int, ...], list[LiteralSite]] = {}
    steps = [step for step in _instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
    loaded: list[int] = []
    for position, step in enumerate(steps):
        following = [item.opname for item in steps[position + 1 : position + 3]]
        ids: tuple[int, ...] | None = None
        if step.opname in _CONSTANTS:
            loaded.append(id(step.argval))
            ids = tuple(map(id, step.argval)) if isinstance(step.argval, tuple) else None
            # `[1, 2, 3]` extends an empty list by a tuple.
            following = following[1:] if following[:1] == ["LIST_EXTEND"] else following
        else:
            count = int(step.arg or 0)
            if step.opname == "BUILD_LIST" and len(loaded) >= count:
                ids = tuple(loaded[len(loaded) - count :])
            loaded = []
        if ids is not None:
            is_stored = bool(following) and following[0].startswith(tuple(_ASSIGNMENTS))
            sites.setdefault(ids, []).append(LiteralSite(step.offset, is_stored))
    return sites


def literals_passed(code: CodeType, sites: list[LiteralSite], call: int) -> int:
    """Return how many of the literals a call gets as values; 0 if its arguments branch or cannot be parsed."""
    running = statement_at(bytecode_statements(code), call)
    spans = operand_spans(code, call)
    span = (spans[0][0], spans[-1][1]) if spans else (running.start if running is not None else 0, call - 1)
    inner: list[Span] = []
    for step in _instructions(code, span):
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return 0
        # The arguments of other calls in the arguments: `f(g([1, 2]))`.
        if step.opname in _CALLS and step.arg:
            operands = operand_spans(code, step.offset)
            if not operands:
                return 0
            inner += operands
    return sum(is_within(site.offset, [span]) and not is_within(site.offset, inner) for site in sites)
