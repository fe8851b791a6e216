"""What the running statement read, found from bytecode alone: no source is needed and none is parsed."""

from __future__ import annotations

import dis
import threading
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

    from clew.capture.provenance import Provenance
    from clew.capture.versions import FrameVersion

_READS_KEPT = 64
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


class Statement(NamedTuple):
    """A run of instructions between two ends of statements, and the names it loads and stores."""

    start: int
    end: int
    loads: tuple[str, ...]
    stores: str | None


class _Reads(threading.local):
    def __init__(self) -> None:
        # By place: a loop's later round replaces what its earlier one read.
        self.recent: dict[tuple[CodeType, int], Provenance | FrameVersion] = {}
        # Single values go on in plain arithmetic, of which nothing is seen but its result.
        self.scalars: dict[tuple[CodeType, int], Provenance] = {}


_reads = _Reads()
_statements: dict[CodeType, list[Statement]] = {}


def note_read(frame: FrameType, read: Provenance | FrameVersion) -> None:
    """Remember that the statement running in `frame` read a column, or took some columns of a frame."""
    recent = _reads.recent
    place = (frame.f_code, frame.f_lasti)
    if isinstance(read, dict):
        earlier = recent.pop(place, None)
        if isinstance(earlier, dict) and len(earlier) < _READS_KEPT:
            read = earlier | read
    recent[place] = read
    if len(recent) > _READS_KEPT:
        del recent[next(iter(recent))]


def note_scalar(frame: FrameType, provenance: Provenance) -> None:
    """Remember that the statement running in `frame` took a single value."""
    scalars = _reads.scalars
    scalars[frame.f_code, frame.f_lasti] = provenance
    if len(scalars) > _READS_KEPT:
        del scalars[next(iter(scalars))]


def scalars_of(frame: FrameType) -> list[Provenance]:
    """The single values that the running statement took."""
    running = _at(_statements_of(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    taken = list(_reads.scalars.items())
    return [read for (code, place), read in taken if code is frame.f_code and running.start <= place <= running.end]


def reads_of(frame: FrameType) -> list[Provenance]:
    """What the running statement read, and what those read that filled the names it loads."""
    statements = _statements_of(frame.f_code)
    running = _at(statements, frame.f_lasti)
    if running is None:
        return []
    feeding = _feeding(statements, running)
    return [
        read if isinstance(read, dict) else read.fields()
        for (code, instruction), read in list(_reads.recent.items())
        # What this very instruction gave belongs to an earlier round of a loop.
        if code is frame.f_code
        and instruction != frame.f_lasti
        and any(one.start <= instruction <= one.end for one in feeding)
    ]


def names_loaded(frame: FrameType) -> list[tuple[Any, int]]:
    """The values of the names that the running statement loads, and how often it does."""
    running = _at(_statements_of(frame.f_code), frame.f_lasti)
    counts = Counter(running.loads) if running is not None else Counter()
    # f_locals is built anew at each access of a function's frame.
    known, outer = frame.f_locals, frame.f_globals
    return [
        (known[name] if name in known else outer[name], times)
        for name, times in counts.items()
        if name in known or name in outer
    ]


def _feeding(statements: list[Statement], running: Statement) -> list[Statement]:
    """The running statement and, back through plain names, those that filled what it loads."""
    found, wanted = [running], set(running.loads)
    for statement in reversed([one for one in statements if one.end < running.start]):
        # `values.append(f(x))` stores nothing but fills `values`: its first load is what it works on.
        target = statement.stores or (statement.loads[0] if statement.loads else None)
        if target in wanted:
            found.append(statement)
            wanted.update(statement.loads)
    return found


def _statements_of(code: CodeType) -> list[Statement]:
    known = _statements.get(code)
    if known is None:
        known = _statements[code] = list(_split(code))
    return known


def _split(code: CodeType) -> Iterator[Statement]:
    start, loads = 0, []
    for instruction in dis.get_instructions(code):
        if instruction.opname in _LOADS:
            loads.append(str(instruction.argval))
        if instruction.opname in _ENDS:
            stored = (
                str(instruction.argval)
                if instruction.opname.startswith("STORE_") and instruction.argval is not None
                else None
            )
            yield Statement(start, instruction.offset, tuple(loads), stored)
            start, loads = instruction.offset + 2, []


def _at(statements: list[Statement], instruction: int) -> Statement | None:
    position = bisect_right(statements, instruction, key=lambda one: one.start) - 1
    return statements[position] if position >= 0 else None
