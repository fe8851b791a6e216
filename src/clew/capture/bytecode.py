"""Code as a row of statements, found from its bytecode: no source is needed and none is parsed."""

from __future__ import annotations

import dis
import inspect
import sys
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

Span = tuple[int, int]

_MOST_KNOWN = 2000
EVERYWHERE: Span = (0, sys.maxsize)

_ENDS = (
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
_LOADS = ("LOAD_NAME", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
# `values.append(f(x))` stores nothing, but fills `values`.
_FILLS = frozenset(["add", "append", "extend", "insert", "setdefault", "update"])
_CALLS = ("CALL", "CALL_KW")
_OPERATORS = {"BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2}
# What stands between the arguments of a call and the call.
_BEFORE_CALL = ("PRECALL", "KW_NAMES")
# `len(df)` and `df.shape` tell how large a frame is, not what is in it.
_NO_DATA = frozenset(["columns", "dtypes", "index", "ndim", "shape", "size"])


class Load(NamedTuple):
    """A name that is loaded, and where."""

    place: int
    name: str


class Statement(NamedTuple):
    """A run of instructions between two ends of statements, and the names it loads and stores."""

    start: int
    end: int
    loads: tuple[Load, ...]
    stores: tuple[str, ...]
    # Where attributes are taken, by their names: what is loaded after `map` is given to `map`.
    attributes: tuple[Load, ...] = ()


_statements: dict[CodeType, list[Statement]] = {}
_literals: dict[int, tuple[CodeType, frozenset[tuple[int, ...]]]] = {}
# By the code's identity, since hashing it hashes all of its constants; it is kept, so that no other takes its id.
_once: dict[tuple[int, int], tuple[CodeType, bool]] = {}
_operands: dict[tuple[int, int], tuple[CodeType, list[Span]]] = {}


def make_room(known: dict[Any, Any]) -> None:
    """Forget what is known of code when it is much: cells that are run again are compiled anew each time."""
    if len(known) >= _MOST_KNOWN:
        known.clear()


def statements_of(code: CodeType) -> list[Statement]:
    """The statements of some code, in order."""
    known = _statements.get(code)
    if known is None:
        make_room(_statements)
        known = _statements[code] = list(_split(code))
    return known


def _split(code: CodeType) -> Iterator[Statement]:
    start, left = 0, 1
    loads: list[Load] = []
    attributes: list[Load] = []
    stores: list[str] = []
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _LOADS or "LOAD_FAST" in name:
            loads += [Load(instruction.offset, one) for one in _names(instruction)]
            if len(loads) > 1 and loads[-2].name == "len":
                del loads[-2:]
        elif name in _ATTRIBUTES:
            attributes.append(Load(instruction.offset, str(instruction.argval)))
            _look_at_attribute(instruction.argval, loads, stores)
        elif name == "UNPACK_SEQUENCE":
            # `x, y = ...` stores twice, and is one statement.
            left += int(instruction.arg or 1) - 1
        if name in _ENDS:
            if name.startswith("STORE_") and instruction.argval is not None:
                stores.append(str(instruction.argval))
            left -= 1
            if left < 1:
                yield Statement(start, instruction.offset, tuple(loads), tuple(stores), tuple(attributes))
                start, left, loads, attributes, stores = instruction.offset + 2, 1, [], [], []


def _look_at_attribute(name: str, loads: list[Load], stores: list[str]) -> None:
    if loads and name in _NO_DATA:
        loads.pop()
    elif loads and name in _FILLS:
        stores.append(loads[-1].name)


def _names(instruction: dis.Instruction) -> list[str]:
    """The names of one instruction: since Python 3.13 it may load two, or store one and load another."""
    given = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return [str(name) for name in (given[1:] if instruction.opname.startswith("STORE_") else given)]


def statement_at(statements: list[Statement], instruction: int) -> Statement | None:
    """The one that an instruction belongs to."""
    position = bisect_right(statements, instruction, key=lambda one: one.start) - 1
    return statements[position] if position >= 0 else None


def runs_once(code: CodeType, instruction: int) -> bool:
    """Whether each call of a function runs an instruction once, and for names that are that call's own."""
    known = _once.get((id(code), instruction))
    if known is None:
        make_room(_once)
        known = _once[id(code), instruction] = (code, _is_of_one_call(code, instruction))
    return known[1]


def _is_of_one_call(code: CodeType, instruction: int) -> bool:
    running = statement_at(statements_of(code), instruction)
    if running is None or _is_entered_again(code) or _is_in_loop(code, instruction):
        return False
    given = code.co_argcount + code.co_kwonlyargcount
    given += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return set(_filled_by(running)) <= set(code.co_varnames[given:])


def _is_entered_again(code: CodeType) -> bool:
    """Whether a call may begin before another ends: a cell's code has no calls, and names what others see."""
    pauses = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & pauses
    return not is_function or code.co_name in (*code.co_names, *code.co_freevars)


def _is_in_loop(code: CodeType, instruction: int) -> bool:
    jumps = (one for one in dis.get_instructions(code) if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs)
    return any(jump.argval <= instruction <= jump.offset for jump in jumps)


def _filled_by(statement: Statement) -> tuple[str, ...]:
    # What stores nothing works on what it loads first.
    return statement.stores or tuple(load.name for load in statement.loads[:1])


def spans_filling(statements: list[Statement], running: Statement, names: set[str]) -> list[Span]:
    """Back through plain names, where the statements lie that filled the given ones before the running statement."""
    found, wanted = [], set(names)
    for statement in reversed([one for one in statements if one.end < running.start]):
        if not wanted.isdisjoint(_filled_by(statement)):
            found.append((statement.start, statement.end))
            wanted.update(load.name for load in statement.loads)
    return found


def target_of(code: CodeType, instruction: int, running: Statement) -> Span | None:
    """The instructions that work out `df.loc[...]` of `df.loc[...] = value`, by where they stand in the source."""
    if dis.opname[code.co_code[instruction]] != "STORE_SUBSCR":
        return None
    places = list(code.co_positions())
    whole = places[instruction // 2]
    inside = [
        offset
        for offset in range(running.start, instruction, 2)
        if None not in (*whole, *places[offset // 2]) and _stands_within(places[offset // 2], whole)
    ]
    return (inside[0], instruction) if inside else None


def _stands_within(place: Any, whole: Any) -> bool:
    line, last_line, column, last_column = place
    first, last, start, end = whole
    return bool((first, start) <= (line, column) and (last_line, last_column) <= (last, end))


def operands_of(code: CodeType, instruction: int) -> list[Span]:
    """Where the operands of an operator or the arguments of a call are worked out; none if that cannot be told."""
    known = _operands.get((id(code), instruction))
    if known is None:
        make_room(_operands)
        known = _operands[id(code), instruction] = (code, _operand_spans(code, instruction))
    return known[1]


def _operand_spans(code: CodeType, instruction: int) -> list[Span]:
    # A call that is running stands at the last of its caches.
    running = statement_at(statements_of(code), instruction)
    first = running.start if running is not None else 0
    before = [one for one in dis.get_instructions(code) if first <= one.offset <= instruction]
    taker = before.pop()
    count = int(taker.arg or 0) if taker.opname in _CALLS else _OPERATORS.get(taker.opname, 0)
    while before and before[-1].opname in _BEFORE_CALL:
        before.pop()
    if taker.opname == "CALL_KW":
        # The names of the arguments lie on top of them.
        before.pop()
    spans: list[Span] = []
    for _ in range(count):
        span = _value_on_top(before)
        if span is None:
            return []
        spans.insert(0, span)
    return spans


def entries_of(code: CodeType, span: Span) -> list[Span]:
    """Where the values of a mapping are worked out that stands in the code as `{"a": ..., "b": ...}`, in order."""
    before = [one for one in dis.get_instructions(code) if span[0] <= one.offset <= span[1]]
    maker = before.pop()
    is_by_names = maker.opname == "BUILD_CONST_KEY_MAP"
    if not is_by_names and maker.opname != "BUILD_MAP":
        return []
    if is_by_names:
        # The names lie on top of the values.
        before.pop()
    count = int(maker.arg or 0) * (1 if is_by_names else 2)
    parts = [_value_on_top(before) for _ in range(count)][::-1]
    values = parts if is_by_names else parts[1::2]
    return [value for value in values if value is not None] if None not in values else []


def _value_on_top(before: list[dis.Instruction]) -> Span | None:
    """Where the value on top of the stack is worked out, in code without branches; its instructions are taken off."""
    height, end = 0, before[-1].offset if before else 0
    while before and height < 1:
        one = before.pop()
        # A statement may be jumped to, a value only from within `this if that else other`.
        is_joined = one.is_jump_target and bool(before)
        if is_joined or one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
            return None
        height += dis.stack_effect(one.opcode, one.arg)
        if height == 1:
            return one.offset, end
    return None


def codes_within(code: CodeType, spans: list[Span]) -> Iterator[CodeType]:
    """The comprehensions and functions that stand in some stretches of code, and those inside of them."""
    if not any(inspect.iscode(constant) for constant in code.co_consts):
        return
    for instruction in dis.get_instructions(code):
        if inspect.iscode(instruction.argval) and is_within(instruction.offset, spans):
            yield instruction.argval
            yield from codes_within(instruction.argval, [EVERYWHERE])


def constants_within(code: CodeType, span: Span) -> frozenset[int]:
    """The ids of the constants that are loaded in a stretch of code, and of what tuples of them hold."""
    loaded = [
        one.argval
        for one in dis.get_instructions(code)
        if one.opname in _CONSTANTS and span[0] <= one.offset <= span[1]
    ]
    items = [item for constant in loaded if isinstance(constant, tuple) for item in constant]
    return frozenset(map(id, (*loaded, *items)))


def is_within(place: int, spans: list[Span]) -> bool:
    """Whether an instruction lies in one of several stretches of code."""
    return any(first <= place <= last for first, last in spans)


def literals_of(code: CodeType) -> frozenset[tuple[int, ...]]:
    """The lists and tuples of constants that stand in some code, by the ids of their items."""
    known = _literals.get(id(code))
    if known is None:
        make_room(_literals)
        known = _literals[id(code)] = (code, frozenset(_literal_lists(code)))
    return known[1]


def _literal_lists(code: CodeType) -> Iterator[tuple[int, ...]]:
    for constant in code.co_consts:
        if isinstance(constant, tuple):
            yield tuple(map(id, constant))
    loaded: list[int] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in _CONSTANTS:
            loaded.append(id(instruction.argval))
            continue
        count = int(instruction.arg or 0)
        if instruction.opname == "BUILD_LIST" and len(loaded) >= count:
            yield tuple(loaded[len(loaded) - count :])
        loaded = []
