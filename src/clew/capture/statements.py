"""What the running statement read, found from bytecode alone: no source is needed and none is parsed."""

from __future__ import annotations

import dis
import threading
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from clew.capture.provenance import Provenance
    from clew.capture.versions import FrameVersion

_READS_KEPT = 64
_ROUNDS_KEPT = 16
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
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
# `len(df)` and `df.shape` tell how large a frame is, not what is in it.
# `values.append(f(x))` stores nothing, but fills `values`.
_FILLS = frozenset(["add", "append", "extend", "insert", "setdefault", "update"])
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


class _Reads(threading.local):
    def __init__(self) -> None:
        # By place: what each round of a loop read stands beside what the one before it did, until somebody asks.
        self.recent: dict[tuple[int, int], tuple[CodeType, list[Provenance | FrameVersion]]] = {}
        # Single values go on in plain arithmetic, of which nothing is seen but its result.
        self.scalars: dict[tuple[int, int], tuple[CodeType, Provenance]] = {}


_reads = _Reads()
_statements: dict[CodeType, list[Statement]] = {}


def note_read(frame: FrameType, read: Provenance | FrameVersion) -> None:
    """Remember that the statement running in `frame` read a column, or took some columns of a frame."""
    recent = _reads.recent
    code = frame.f_code
    # By the code's identity, since hashing it hashes all of its constants; it is kept, so that no other takes its id.
    place = (id(code), frame.f_lasti)
    known = recent.pop(place, None)
    if known is None:
        if len(recent) >= _READS_KEPT:
            del recent[next(iter(recent))]
        known = (code, [read])
    elif not isinstance(read, dict):
        # A frame replaces what was read before it: held beside it, earlier ones would only fill the memory.
        known = (code, [read])
    elif len(known[1]) < _ROUNDS_KEPT:
        known[1].append(read)
    else:
        known = (code, [_merged(known[1]), read])
    recent[place] = known


def _merged(reads: list[Provenance | FrameVersion]) -> Provenance:
    """What the rounds of a loop read at one place; a later one replaces whole frames, and very many columns."""
    found: Provenance | FrameVersion = {}
    for read in reads:
        if isinstance(found, dict) and isinstance(read, dict) and len(found) < _READS_KEPT:
            found = found | read
        else:
            found = read
    return found if isinstance(found, dict) else found.fields()


def note_scalar(frame: FrameType, provenance: Provenance) -> None:
    """Remember that the statement running in `frame` took a single value."""
    scalars = _reads.scalars
    scalars[id(frame.f_code), frame.f_lasti] = (frame.f_code, provenance)
    if len(scalars) > _READS_KEPT:
        del scalars[next(iter(scalars))]


def scalars_behind(value: Any, frame: FrameType, is_plain: Callable[[Any], bool]) -> list[Provenance]:
    """The single values that `value` was computed from: taken by the statements that filled its name, or by this one.

    Names are followed back as long as what they hold is itself a single value.
    """
    if not _reads.scalars:
        return []
    reach = _reach_of(frame.f_code, frame.f_lasti)
    taken = [
        (place, read)
        for (_, place), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and _is_within(place, reach.spans)
    ]
    if not taken:
        return []
    known, outer = frame.f_locals, frame.f_globals

    def held(name: str) -> Any:
        return known[name] if name in known else outer.get(name)

    own = {name for name in reach.loaded if held(name) is value}
    # A small number that has no name is rather the literal than the one of the same value that was taken.
    if not own and id(value) in reach.constants:
        return []
    wanted = own or {name for name in reach.loaded if is_plain(held(name))}
    spans = _spans_of_scalars(reach.filling, wanted, lambda name: is_plain(held(name)))
    if not own:
        spans.append(reach.spans[0])
    return [read for place, read in taken if _is_within(place, spans)]


def scalars_filling(name: str, frame: FrameType, is_plain: Callable[[Any], bool]) -> list[Provenance]:
    """The same for a value of which only the name is known, as in the text of a query."""
    known, outer = frame.f_locals, frame.f_globals
    statements = _statements_of(frame.f_code)
    earlier = [one for one in reversed(statements) if one.end < frame.f_lasti]
    spans = _spans_of_scalars(earlier, {name}, lambda one: is_plain(known[one] if one in known else outer.get(one)))
    return [
        read
        for (_, place), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and _is_within(place, spans)
    ]


def _spans_of_scalars(
    earlier: list[Statement], names: set[str], is_plain: Callable[[str], bool]
) -> list[tuple[int, int]]:
    """Where single values were taken that went into the given names: back through names of single values alone."""
    spans, wanted = [], set(names)
    for statement in earlier:
        if not wanted.isdisjoint(statement.stores):
            spans.append((statement.start, statement.end))
            wanted.update(load.name for load in statement.loads if is_plain(load.name))
    return spans


class _Reach(NamedTuple):
    """What an instruction can have got a value from: constants, the names it loads, and what may have filled those."""

    code: CodeType
    constants: frozenset[int]
    loaded: frozenset[str]
    filling: list[Statement]
    # Where the running statement lies up to the instruction, then where those that fill its names lie.
    spans: list[tuple[int, int]]


_reaches: dict[tuple[int, int], _Reach] = {}
_literals: dict[int, tuple[CodeType, frozenset[tuple[int, ...]]]] = {}


def _reach_of(code: CodeType, instruction: int) -> _Reach:
    # By the code's identity, since hashing it hashes all of its constants; it is kept, so that no other takes its id.
    known = _reaches.get((id(code), instruction))
    if known is None:
        known = _reaches[id(code), instruction] = _reached(code, instruction)
    return known


def _reached(code: CodeType, instruction: int) -> _Reach:
    constants = frozenset(map(id, code.co_consts))
    statements = _statements_of(code)
    running = _at(statements, instruction)
    if running is None:
        return _Reach(code, constants, frozenset(), [], [(instruction, instruction)])
    loaded = frozenset(load.name for load in running.loads if load.place <= instruction)
    wanted, filling = set(loaded), []
    for statement in reversed([one for one in statements if one.end < running.start]):
        if not wanted.isdisjoint(statement.stores):
            filling.append(statement)
            wanted.update(load.name for load in statement.loads)
    spans = [(running.start, instruction), *[(one.start, one.end) for one in filling]]
    return _Reach(code, constants, loaded, filling, spans)


def literals_of(code: CodeType) -> frozenset[tuple[int, ...]]:
    """The lists and tuples of constants that stand in some code, by the ids of their items."""
    known = _literals.get(id(code))
    if known is None:
        known = _literals[id(code)] = (code, frozenset(_literal_lists(code)))
    return known[1]


def _literal_lists(code: CodeType) -> Iterator[tuple[int, ...]]:
    for constant in code.co_consts:
        if isinstance(constant, tuple):
            yield tuple(map(id, constant))
    loaded: list[int] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            loaded.append(id(instruction.argval))
            continue
        count = int(instruction.arg or 0)
        if instruction.opname == "BUILD_LIST" and len(loaded) >= count:
            yield tuple(loaded[len(loaded) - count :])
        loaded = []


def _is_within(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(first <= place <= last for first, last in spans)


def reads_of(frame: FrameType, given_to: str | None = None, *, here: bool = False) -> list[Provenance]:
    """What the running statement read, and what those read that filled the names it loads, unless it is asked `here`.

    With `given_to`, only what was read for the arguments of the method or function of that name. What an assignment
    read to find the place that it fills is left out.
    """
    statements = _statements_of(frame.f_code)
    running = _at(statements, frame.f_lasti)
    if running is None:
        return []
    start, end = (
        (running.start, running.end) if given_to is None else (_opened(running, given_to, frame.f_lasti), frame.f_lasti)
    )
    target = _target_of(frame.f_code, frame.f_lasti, running)
    spans = [(start, end)] if target is None else [(start, target[0] - 1), (target[1] + 1, end)]
    if here:
        return _read_within(frame, spans)
    wanted = {load.name for load in running.loads if _is_within(load.place, spans)}
    return _read_within(frame, [*spans, *_spans_filling(statements, running, wanted)])


def reads_in(code: CodeType) -> list[Provenance]:
    """What a function read when it last ran."""
    return [_merged(reads) for one, reads in _reads.recent.values() if one is code]


def scalars_in(code: CodeType) -> list[Provenance]:
    """The single values that a function took when it last ran."""
    return [read for one, read in _reads.scalars.values() if one is code]


def reads_of_target(frame: FrameType) -> list[Provenance]:
    """What an assignment read to find the place that it fills; what the whole statement read if it is none."""
    statements = _statements_of(frame.f_code)
    running = _at(statements, frame.f_lasti)
    target = _target_of(frame.f_code, frame.f_lasti, running) if running is not None else None
    if running is None or target is None:
        return reads_of(frame)
    wanted = {load.name for load in running.loads if _is_within(load.place, [target])}
    return _read_within(frame, [target, *_spans_filling(statements, running, wanted)])


def _target_of(code: CodeType, instruction: int, running: Statement) -> tuple[int, int] | None:
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


def reads_filling(frame: FrameType, names: set[str]) -> list[Provenance]:
    """What those statements read, before the running one, that filled the given names."""
    statements = _statements_of(frame.f_code)
    running = _at(statements, frame.f_lasti)
    return _read_within(frame, _spans_filling(statements, running, names)) if running is not None else []


def _read_within(frame: FrameType, spans: list[tuple[int, int]]) -> list[Provenance]:
    def is_within(code: CodeType, instruction: int) -> bool:
        # What this very instruction gave belongs to an earlier round of a loop.
        is_earlier = code is frame.f_code and instruction != frame.f_lasti
        return is_earlier and _is_within(instruction, spans)

    return [
        *[_merged(reads) for (_, place), (code, reads) in _reads.recent.items() if is_within(code, place)],
        *[read for (_, place), (code, read) in _reads.scalars.items() if is_within(code, place)],
    ]


def _opened(running: Statement, name: str, call: int) -> int:
    """Where the arguments of a call begin: after the method or function was loaded."""
    places = [load.place for load in (*running.attributes, *running.loads) if load.name == name and load.place < call]
    return max(places, default=running.start)


def names_of(value: Any, frame: FrameType) -> set[str]:
    """The names under which the running statement loads a value."""
    running = _at(_statements_of(frame.f_code), frame.f_lasti)
    known, outer = frame.f_locals, frame.f_globals
    loaded = {load.name for load in running.loads} if running is not None else set()
    return {name for name in loaded if (known[name] if name in known else outer.get(name)) is value}


def names_loaded(frame: FrameType, given_to: str | None = None) -> list[tuple[Any, int]]:
    """The values of the names that the running statement loads, and how often it does."""
    running = _at(_statements_of(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    if given_to is None:
        target = _target_of(frame.f_code, frame.f_lasti, running)
        within = [target] if target is not None else []
        outside = {load.name for load in running.loads if not _is_within(load.place, within)}
        counts = Counter(load.name for load in running.loads if load.name in outside)
    else:
        start = _opened(running, given_to, frame.f_lasti)
        counts = Counter(load.name for load in running.loads if start < load.place < frame.f_lasti)
    # f_locals is built anew at each access of a function's frame.
    known, outer = frame.f_locals, frame.f_globals
    return [
        (known[name] if name in known else outer[name], times)
        for name, times in counts.items()
        if name in known or name in outer
    ]


def _spans_filling(statements: list[Statement], running: Statement, names: set[str]) -> list[tuple[int, int]]:
    """Back through plain names, where the statements lie that filled the given ones before the running statement."""
    found, wanted = [], set(names)
    for statement in reversed([one for one in statements if one.end < running.start]):
        # What stores nothing works on what it loads first.
        targets = statement.stores or tuple(load.name for load in statement.loads[:1])
        if not wanted.isdisjoint(targets):
            found.append((statement.start, statement.end))
            wanted.update(load.name for load in statement.loads)
    return found


def _statements_of(code: CodeType) -> list[Statement]:
    known = _statements.get(code)
    if known is None:
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


def _at(statements: list[Statement], instruction: int) -> Statement | None:
    position = bisect_right(statements, instruction, key=lambda one: one.start) - 1
    return statements[position] if position >= 0 else None
