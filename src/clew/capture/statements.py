"""What the running statement read, found from bytecode alone: no source is needed and none is parsed."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.bytecode import (
    EVERYWHERE,
    codes_within,
    constants_within,
    is_within,
    make_room,
    operands_of,
    runs_once,
    spans_filling,
    statement_at,
    statements_of,
    target_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from clew.capture.bytecode import Span, Statement
    from clew.capture.provenance import Provenance
    from clew.capture.versions import FrameVersion

_READS_KEPT = 64
_ROUNDS_KEPT = 16


class _Reads(threading.local):
    def __init__(self) -> None:
        # By place: what each round of a loop read stands beside what the one before it did, until somebody asks; and
        # whether a call of its function runs the place once, when that was looked at.
        self.recent: dict[tuple[int, int], tuple[CodeType, list[Provenance | FrameVersion], bool | None]] = {}
        # Single values go on in plain arithmetic, of which nothing is seen but its result.
        self.scalars: dict[tuple[int, int], tuple[CodeType, Provenance]] = {}


_reads = _Reads()


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
        known = (code, [read], None)
    else:
        _, reads, is_once = known
        if is_once is None:
            is_once = runs_once(code, place[1])
            known = (code, reads, is_once)
        if is_once or not isinstance(read, dict):
            # A frame replaces what was read before it: held beside it, earlier ones would only fill the memory. So
            # does another call of a function: what an earlier one read is nothing to it.
            reads[:] = [read]
        elif len(reads) < _ROUNDS_KEPT:
            reads.append(read)
        else:
            reads[:] = [_merged(reads), read]
    recent[place] = known


def forget_reads() -> None:
    """A cell starts: what its statements read when it last ran is nothing to those that run now."""
    _reads.recent.clear()


def _merged(reads: list[Provenance | FrameVersion]) -> Provenance:
    """What the rounds of a loop read at one place; a later one replaces whole frames, and very many columns."""
    last = reads[-1]
    if not isinstance(last, dict):
        return last.fields()
    found: Provenance = {}
    for read in reads:
        if isinstance(read, dict):
            found = {} if len(found) >= _READS_KEPT else found
            found.update(read)
    return found


def note_scalar(frame: FrameType, provenance: Provenance) -> None:
    """Remember that the statement running in `frame` took a single value."""
    scalars = _reads.scalars
    scalars[id(frame.f_code), frame.f_lasti] = (frame.f_code, provenance)
    if len(scalars) > _READS_KEPT:
        del scalars[next(iter(scalars))]


def scalars_behind(
    value: Any, frame: FrameType, is_plain: Callable[[Any], bool], within: Span | None = None
) -> list[Provenance]:
    """The single values that `value` was computed from: taken by the statements that filled its name, or by this one.

    Names are followed back as long as what they hold is itself a single value. `within` is the part of the running
    statement that works out the value, where that is known.
    """
    if not _reads.scalars:
        return []
    reach = _reach_of(frame.f_code, frame.f_lasti, within)
    taken = [
        (place, read)
        for (_, place), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and is_within(place, reach.spans)
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
    return [read for place, read in taken if is_within(place, spans)]


def scalars_filling(name: str, frame: FrameType, is_plain: Callable[[Any], bool]) -> list[Provenance]:
    """The same for a value of which only the name is known, as in the text of a query."""
    known, outer = frame.f_locals, frame.f_globals
    statements = statements_of(frame.f_code)
    earlier = [one for one in reversed(statements) if one.end < frame.f_lasti]
    spans = _spans_of_scalars(earlier, {name}, lambda one: is_plain(known[one] if one in known else outer.get(one)))
    return [
        read
        for (_, place), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and is_within(place, spans)
    ]


def _spans_of_scalars(earlier: list[Statement], names: set[str], is_plain: Callable[[str], bool]) -> list[Span]:
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
    spans: list[Span]


_reaches: dict[tuple[int, int, Span | None], _Reach] = {}


def _reach_of(code: CodeType, instruction: int, within: Span | None) -> _Reach:
    # By the code's identity, since hashing it hashes all of its constants; it is kept, so that no other takes its id.
    known = _reaches.get((id(code), instruction, within))
    if known is None:
        make_room(_reaches)
        known = _reaches[id(code), instruction, within] = _reached(code, instruction, within)
    return known


def _reached(code: CodeType, instruction: int, within: Span | None) -> _Reach:
    statements = statements_of(code)
    running = statement_at(statements, instruction)
    if running is None:
        return _Reach(code, frozenset(map(id, code.co_consts)), frozenset(), [], [(instruction, instruction)])
    here = within or _given_part(code, instruction, running)
    loaded = frozenset(load.name for load in running.loads if is_within(load.place, [here]))
    wanted, filling = set(loaded), []
    for statement in reversed([one for one in statements if one.end < running.start]):
        if not wanted.isdisjoint(statement.stores):
            filling.append(statement)
            wanted.update(load.name for load in statement.loads)
    spans = [here, *[(one.start, one.end) for one in filling]]
    return _Reach(code, constants_within(code, here), loaded, filling, spans)


def _given_part(code: CodeType, instruction: int, running: Statement) -> Span:
    """The part of a statement that works out what an operator, a call or an assignment is given."""
    target = target_of(code, instruction, running)
    if target is not None:
        return running.start, target[0] - 1
    operands = operands_of(code, instruction)
    return (operands[0][0], operands[-1][1]) if operands else (running.start, instruction)


def part_of_key(frame: FrameType) -> Span | None:
    """The part of an assignment that finds the place that it fills."""
    running = statement_at(statements_of(frame.f_code), frame.f_lasti)
    return target_of(frame.f_code, frame.f_lasti, running) if running is not None else None


def reads_of(frame: FrameType, given_to: str | Span | None = None, *, here: bool = False) -> list[Provenance]:
    """What the running statement read, and what those read that filled the names it loads, unless it is asked `here`.

    With `given_to`, only what was read for the arguments of the method or function of that name, or in that stretch of
    the statement. What an assignment read to find the place that it fills is left out.
    """
    statements = statements_of(frame.f_code)
    running = statement_at(statements, frame.f_lasti)
    if running is None:
        return []
    start, end = _stretch(running, given_to, frame.f_lasti)
    target = target_of(frame.f_code, frame.f_lasti, running)
    spans = [(start, end)] if target is None else [(start, target[0] - 1), (target[1] + 1, end)]
    if here:
        return _read_within(frame, spans)
    wanted = {load.name for load in running.loads if is_within(load.place, spans)}
    return _read_within(frame, [*spans, *spans_filling(statements, running, wanted)])


def _stretch(running: Statement, given_to: str | Span | None, call: int) -> Span:
    """The part of a statement that is asked about: all of it, what is given to a name, or the given one."""
    if given_to is None:
        return running.start, running.end
    return (_opened(running, given_to, call), call) if isinstance(given_to, str) else given_to


def columns_read(frame: FrameType, given_to: str) -> list[Provenance]:
    """What was read to call `given_to`, each place once: single values only where their column was not seen."""
    reads = reads_of(frame, given_to)
    taken = {id(read) for _, read in _reads.scalars.values()}
    columns = [read for read in reads if id(read) not in taken]
    seen = {field for read in columns for field in read}
    singles = [
        {field: flags for field, flags in read.items() if field not in seen} for read in reads if id(read) in taken
    ]
    return [*columns, *singles]


def reads_in(code: CodeType) -> list[Provenance]:
    """What a function read when it last ran."""
    return [_merged(reads) for one, reads, _ in _reads.recent.values() if one is code]


def scalars_in(code: CodeType) -> list[Provenance]:
    """The single values that a function took when it last ran."""
    return [read for one, read in _reads.scalars.values() if one is code]


def reads_of_target(frame: FrameType) -> list[Provenance]:
    """What an assignment read to find the place that it fills; what the whole statement read if it is none."""
    statements = statements_of(frame.f_code)
    running, target = statement_at(statements, frame.f_lasti), part_of_key(frame)
    if running is None or target is None:
        return reads_of(frame)
    wanted = {load.name for load in running.loads if is_within(load.place, [target])}
    return _read_within(frame, [target, *spans_filling(statements, running, wanted)])


def reads_filling(frame: FrameType, names: set[str]) -> list[Provenance]:
    """What those statements read, before the running one, that filled the given names."""
    statements = statements_of(frame.f_code)
    running = statement_at(statements, frame.f_lasti)
    return _read_within(frame, spans_filling(statements, running, names)) if running is not None else []


def _read_within(frame: FrameType, spans: list[Span]) -> list[Provenance]:
    # Nearly always all reads are of one code, and nothing has to be looked up.
    is_alone = all(code is frame.f_code for code, *_ in (*_reads.recent.values(), *_reads.scalars.values()))
    called = set() if is_alone else set(map(id, _codes_called(frame, spans)))

    def counts(code: CodeType, instruction: int) -> bool:
        if code is not frame.f_code:
            return id(code) in called
        # What this very instruction gave belongs to an earlier round of a loop.
        return instruction != frame.f_lasti and is_within(instruction, spans)

    recent = {place: known for place, known in _reads.recent.items() if counts(known[0], place[1])}
    for code, instruction in [(known[0], place[1]) for place, known in recent.items()]:
        _replace_arguments(recent, code, instruction)
    return [
        *[_merged(reads) for _, reads, _ in recent.values()],
        *[read for (_, place), (code, read) in _reads.scalars.items() if counts(code, place)],
    ]


def _replace_arguments(recent: dict[tuple[int, int], Any], code: CodeType, instruction: int) -> None:
    """What a call gave stands for what was read for its arguments, as of `np.where(...) * 2`."""
    spans = operands_of(code, instruction)
    for place in [one for one in recent if one[0] == id(code) and is_within(one[1], spans)] if spans else ():
        del recent[place]


def _codes_called(frame: FrameType, spans: list[Span]) -> Iterator[CodeType]:
    """The codes that ran for some stretches: of comprehensions that stand there, and of functions named there."""
    yield from codes_within(frame.f_code, spans)
    known, outer = frame.f_locals, frame.f_globals
    loads = [load for statement in statements_of(frame.f_code) for load in statement.loads]
    for name in {load.name for load in loads if is_within(load.place, spans)}:
        code = getattr(known[name] if name in known else outer.get(name), "__code__", None)
        if inspect.iscode(code):
            yield code
            yield from codes_within(code, [EVERYWHERE])


def _opened(running: Statement, name: str, call: int) -> int:
    """Where the arguments of a call begin: after the method or function was loaded."""
    places = [load.place for load in (*running.attributes, *running.loads) if load.name == name and load.place < call]
    return max(places, default=running.start) + 1


def names_of(value: Any, frame: FrameType) -> set[str]:
    """The names under which the running statement loads a value."""
    running = statement_at(statements_of(frame.f_code), frame.f_lasti)
    known, outer = frame.f_locals, frame.f_globals
    loaded = {load.name for load in running.loads} if running is not None else set()
    return {name for name in loaded if (known[name] if name in known else outer.get(name)) is value}


def names_loaded(frame: FrameType, given_to: str | Span | None = None) -> list[tuple[Any, int]]:
    """The values of the names that the running statement loads, and how often it does."""
    running = statement_at(statements_of(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    if given_to is None:
        target = target_of(frame.f_code, frame.f_lasti, running)
        within = [target] if target is not None else []
        outside = {load.name for load in running.loads if not is_within(load.place, within)}
        counts = Counter(load.name for load in running.loads if load.name in outside)
    else:
        start, end = _stretch(running, given_to, frame.f_lasti)
        counts = Counter(load.name for load in running.loads if start <= load.place <= end)
    # f_locals is built anew at each access of a function's frame.
    known, outer = frame.f_locals, frame.f_globals
    return [
        (known[name] if name in known else outer[name], times)
        for name, times in counts.items()
        if name in known or name in outer
    ]
