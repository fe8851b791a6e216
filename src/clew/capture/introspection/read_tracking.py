"""Read tracking: which columns the running statement read, found from bytecode."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from clew.capture.introspection.bytecode import (
    WHOLE_CODE,
    NameLoad,
    bytecode_statements,
    cached_by_code,
    constant_ids_within,
    definition_spans,
    executes_once,
    is_result_kept,
    is_within,
    literal_sites,
    literals_passed,
    nested_codes,
    operand_spans,
    statement_at,
    store_target_span,
)
from clew.capture.introspection.user_code import is_user_code, read_locals
from clew.capture.lineage.frame_version import get_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType

    from clew.capture.introspection.bytecode import BytecodeStatement, Span
    from clew.capture.lineage.frame_version import FrameVersion
    from clew.capture.lineage.provenance import Provenance

_MAX_READS = 64
_MAX_ITERATIONS = 16


# The code, the reads of each loop iteration, merged when queried, whether a call executes the instruction only once
# (None: not checked yet), and whether the statement keeps the result.
_ReadEntry: TypeAlias = "tuple[CodeType, list[Provenance | FrameVersion], bool | None, bool]"


class _ReadLog(threading.local):
    def __init__(self) -> None:
        # By code id and offset.
        self.recent: dict[tuple[int, int], _ReadEntry] = {}
        # Scalars are used in plain arithmetic, of which only the result is visible.
        self.scalars: dict[tuple[int, int], tuple[CodeType, Provenance]] = {}


_reads = _ReadLog()


def record_read(frame: FrameType, read: Provenance | FrameVersion) -> bool:
    """Record that the statement running in `frame` read columns; return whether it keeps the result of the call."""
    recent = _reads.recent
    code = frame.f_code
    # Keyed by id(code), since hashing code hashes all its constants; the value holds the code, so its id stays valid.
    key = (id(code), frame.f_lasti)
    entry = recent.pop(key, None)
    if entry is None:
        if len(recent) >= _MAX_READS:
            del recent[next(iter(recent))]
        entry = (code, [read], None, is_result_kept(code, key[1]))
    else:
        _, reads, is_single_run, is_kept = entry
        if is_single_run is None:
            is_single_run = executes_once(code, key[1])
            entry = (code, reads, is_single_run, is_kept)
        if is_single_run or not isinstance(read, dict):
            # A frame replaces earlier reads, which would only use memory. So does another call of the function,
            # for which the reads of an earlier call are irrelevant.
            reads[:] = [read]
        elif len(reads) < _MAX_ITERATIONS:
            reads.append(read)
        else:
            reads[:] = [_merge_reads(reads), read]
    recent[key] = entry
    return entry[3]


def clear_reads() -> None:
    """Drop the reads of earlier executions when a cell starts."""
    _reads.recent.clear()


def _merge_reads(reads: list[Provenance | FrameVersion]) -> Provenance:
    """Merge the reads of loop iterations; later reads replace whole frames and very many columns."""
    last = reads[-1]
    if not isinstance(last, dict):
        return last.fields()
    merged: Provenance = {}
    for read in reads:
        if isinstance(read, dict):
            merged = {} if len(merged) >= _MAX_READS else merged
            merged.update(read)
    return merged


def _name_lookup(frame: FrameType) -> Callable[[str], Any]:
    """Return a function that returns the value of a local or global name; None if there is none."""
    # Once: the locals of a function are copied on each access.
    local_names, global_names = read_locals(frame), frame.f_globals
    return lambda name: local_names[name] if name in local_names else global_names.get(name)


def _definition_spans(frame: FrameType, running: BytecodeStatement, loads: Iterable[NameLoad]) -> list[Span]:
    """Return the spans that define the loaded names.

    Modules, functions and classes carry no values. A frame of which columns are read is recorded by these reads.
    """
    lookup, builtin_names = _name_lookup(frame), frame.f_builtins

    def can_carry(load: NameLoad) -> bool:
        value = lookup(load.name)
        if value is None:
            return load.name not in builtin_names
        if load.is_item_read and get_state(value) is not None:
            return False
        return not (inspect.ismodule(value) or (callable(value) and hasattr(value, "__name__")))

    return definition_spans(bytecode_statements(frame.f_code), running, loads, can_carry)


def record_scalar(frame: FrameType, provenance: Provenance) -> None:
    """Record that the statement running in `frame` extracted a scalar."""
    scalars = _reads.scalars
    scalars[id(frame.f_code), frame.f_lasti] = (frame.f_code, provenance)
    if len(scalars) > _MAX_READS:
        del scalars[next(iter(scalars))]


def extracted_scalar(frame: FrameType) -> Provenance:
    """Return the provenance of the scalar that the running instruction extracted last."""
    entry = _reads.scalars.get((id(frame.f_code), frame.f_lasti))
    return entry[1] if entry is not None else {}


def has_reads() -> bool:
    """Return whether any column was read or any scalar was extracted."""
    return bool(_reads.scalars or _reads.recent)


def scalar_sources(
    value: Any, frame: FrameType, is_plain: Callable[[Any], bool], within: Span | None = None
) -> list[Provenance]:
    """Return the provenance of the scalars that `value` was computed from, in this statement or in its definitions.

    Names are followed back as long as their values are scalars. Without such scalars, the columns that the definitions
    read: `max(df["x"])`. `within` is the span of the running statement that computes the value, if known.
    """
    if not _reads.scalars and not _reads.recent:
        return []
    reach = _reachable(frame.f_code, frame.f_lasti, within)
    candidates = [
        (offset, read)
        for (_, offset), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and is_within(offset, reach.spans)
    ]
    if not candidates and len(reach.spans) == 1:
        return []
    lookup = _name_lookup(frame)
    exact_names = {name for name in reach.loaded if lookup(name) is value}
    # A small number without a name is more likely the literal than an extracted scalar of equal value.
    if not exact_names and id(value) in reach.constants:
        return []
    wanted = exact_names or {name for name in reach.loaded if is_plain(lookup(name))}
    spans = _scalar_spans(reach.definitions, wanted, lambda name: is_plain(lookup(name)))
    defining = list(spans)
    if not exact_names:
        spans.append(reach.spans[0])
    sources = [read for offset, read in candidates if is_within(offset, spans)]
    return sources or (_reads_within(frame, defining) if defining else [])


def scalar_sources_of_name(name: str, frame: FrameType, is_plain: Callable[[Any], bool]) -> list[Provenance]:
    """Return the provenance of the scalars behind a variable name, as used in the text of a query."""
    lookup, statements = _name_lookup(frame), bytecode_statements(frame.f_code)
    earlier = [statement for statement in reversed(statements) if statement.end < frame.f_lasti]
    spans = _scalar_spans(earlier, {name}, lambda other: is_plain(lookup(other)))
    return [
        read
        for (_, offset), (code, read) in list(_reads.scalars.items())
        if code is frame.f_code and is_within(offset, spans)
    ]


def _scalar_spans(earlier: list[BytecodeStatement], names: set[str], is_plain: Callable[[str], bool]) -> list[Span]:
    """Return the spans of statements that define the names, followed transitively through scalars only."""
    spans, wanted = [], set(names)
    for statement in earlier:
        if not wanted.isdisjoint(statement.stores):
            spans.append((statement.start, statement.end))
            wanted.update(load.name for load in statement.loads if is_plain(load.name))
    return spans


class _Reachable(NamedTuple):
    """Possible origins of a value at an instruction: constants, loaded names and the statements that define them."""

    constants: frozenset[int]
    loaded: frozenset[str]
    definitions: list[BytecodeStatement]
    # The span of the running statement up to the instruction, then the spans of the definitions.
    spans: list[Span]


@cached_by_code
def _reachable(code: CodeType, instruction: int, within: Span | None) -> _Reachable:
    statements = bytecode_statements(code)
    running = statement_at(statements, instruction)
    if running is None:
        return _Reachable(frozenset(map(id, code.co_consts)), frozenset(), [], [(instruction, instruction)])
    span = within or _argument_span(code, instruction, running)
    loaded = frozenset(load.name for load in running.loads if is_within(load.offset, [span]))
    wanted, definitions = set(loaded), []
    for statement in reversed([earlier for earlier in statements if earlier.end < running.start]):
        if not wanted.isdisjoint(statement.stores):
            definitions.append(statement)
            wanted.update(load.name for load in statement.loads)
    spans = [span, *[(statement.start, statement.end) for statement in definitions]]
    return _Reachable(constant_ids_within(code, span), loaded, definitions, spans)


def _argument_span(code: CodeType, instruction: int, running: BytecodeStatement) -> Span:
    """Return the span that computes the operands of an operator, the arguments of a call or an assigned value."""
    target = store_target_span(code, instruction, running.start)
    if target is not None:
        return running.start, target[0] - 1
    operands = operand_spans(code, instruction)
    return (operands[0][0], operands[-1][1]) if operands else (running.start, instruction)


def assignment_target_span(frame: FrameType) -> Span | None:
    """Return the span of an assignment that computes its target."""
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    return store_target_span(frame.f_code, frame.f_lasti, running.start) if running is not None else None


def reads_in_statement(
    frame: FrameType, within: str | Span | None = None, *, current_only: bool = False
) -> list[Provenance]:
    """Return the reads of the running statement and, unless `current_only`, of the definitions of the names it loads.

    `within` restricts them to the arguments of the method or function of that name, or to a span. Reads that compute
    the target of an assignment are excluded.
    """
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    start, end = _resolve_span(running, within, frame.f_lasti)
    target = store_target_span(frame.f_code, frame.f_lasti, running.start)
    spans = [(start, end)] if target is None else [(start, target[0] - 1), (target[1] + 1, end)]
    if current_only:
        return _reads_within(frame, spans)
    wanted = [load for load in running.loads if is_within(load.offset, spans)]
    # A comprehension looks up items of outer variables: `[prices[key] for key in keys]`.
    nested = {name for code in nested_codes(frame.f_code, spans) for name in (*code.co_names, *code.co_freevars)}
    wanted += [NameLoad(start, name, is_item_read=True) for name in nested]
    return _reads_within(frame, [*spans, *_definition_spans(frame, running, wanted)])


def _resolve_span(running: BytecodeStatement, within: str | Span | None, call: int) -> Span:
    """Return the span of the whole statement, of the arguments of a callee name, or the span itself."""
    if within is None:
        return running.start, running.end
    return (_arguments_start(running, within, call), call) if isinstance(within, str) else within


def columns_read_for(frame: FrameType, callee: str) -> list[Provenance]:
    """Return the reads for the arguments of `callee`; scalars only where their column was not read."""
    reads = reads_in_statement(frame, callee)
    scalar_ids = {id(read) for _, read in _reads.scalars.values()}
    columns = [read for read in reads if id(read) not in scalar_ids]
    seen = {field for read in columns for field in read}
    scalars = [
        {field: flags for field, flags in read.items() if field not in seen} for read in reads if id(read) in scalar_ids
    ]
    return [*columns, *scalars]


def reads_in_code(code: CodeType) -> list[Provenance]:
    """Return the reads of the last run of a function."""
    return [_merge_reads(reads) for read_code, reads, *_ in _reads.recent.values() if read_code is code]


def scalars_in_code(code: CodeType) -> list[Provenance]:
    """Return the scalars that the last run of a function extracted."""
    return [read for read_code, read in _reads.scalars.values() if read_code is code]


def reads_in_target(frame: FrameType) -> list[Provenance]:
    """Return the reads that compute the target of an assignment; those of the whole statement if it is none."""
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    target = assignment_target_span(frame)
    if running is None or target is None:
        return reads_in_statement(frame)
    wanted = [load for load in running.loads if is_within(load.offset, [target])]
    return _reads_within(frame, [target, *_definition_spans(frame, running, wanted)])


def reads_defining(frame: FrameType, names: set[str]) -> list[Provenance]:
    """Return the reads of earlier statements that define the names."""
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    return _reads_within(frame, _definition_spans(frame, running, [NameLoad(0, name) for name in names]))


def _reads_within(frame: FrameType, spans: list[Span]) -> list[Provenance]:
    # Nearly always all reads belong to one code object, and no look-up is needed.
    is_single_code = all(code is frame.f_code for code, *_ in (*_reads.recent.values(), *_reads.scalars.values()))
    called_ids = set() if is_single_code else set(map(id, _called_codes(frame, spans)))

    def is_relevant(code: CodeType, instruction: int) -> bool:
        if code is not frame.f_code:
            return id(code) in called_ids
        # A read by this very instruction belongs to an earlier loop iteration.
        return instruction != frame.f_lasti and is_within(instruction, spans)

    recent = {key: entry for key, entry in _reads.recent.items() if is_relevant(entry[0], key[1])}
    for code, instruction in [(entry[0], key[1]) for key, entry in recent.items()]:
        _drop_argument_reads(recent, code, instruction)
    return [
        *[_merge_reads(reads) for _, reads, *_ in recent.values()],
        *[read for (_, offset), (code, read) in _reads.scalars.items() if is_relevant(code, offset)],
    ]


def _drop_argument_reads(recent: dict[tuple[int, int], Any], code: CodeType, instruction: int) -> None:
    """Drop the reads of a call's arguments: its result covers them, as in `np.where(...) * 2`."""
    spans = operand_spans(code, instruction)
    for key in [key for key in recent if key[0] == id(code) and is_within(key[1], spans)] if spans else ():
        del recent[key]


def _called_codes(frame: FrameType, spans: list[Span]) -> Iterator[CodeType]:
    """Yield the code of comprehensions within spans, of functions named there, and of functions that those name."""
    lookup = _name_lookup(frame)
    statements = bytecode_statements(frame.f_code)
    named = [item for statement in statements for item in (*statement.loads, *statement.attributes)]
    nested = list(nested_codes(frame.f_code, spans))
    yield from nested
    names = {item.name for item in named if is_within(item.offset, spans)}.union(*[code.co_names for code in nested])
    pending = _functions(names, lookup)
    seen: set[int] = set()
    while pending:
        function = pending.pop()
        code = function.__code__
        if id(code) in seen:
            continue
        seen.add(id(code))
        codes = [code, *nested_codes(code, [WHOLE_CODE])]
        yield from codes
        if is_user_code(code):
            pending += _functions({name for inner in codes for name in inner.co_names}, function.__globals__.get)


def _functions(names: set[str], lookup: Callable[[str], Any]) -> list[Any]:
    """Return the functions with the names, also those of a named module."""
    values = [lookup(name) for name in names]
    for module in [value for value in values if inspect.ismodule(value)]:
        values += [vars(module).get(name) for name in names]
    return [value for value in values if inspect.isfunction(value)]


def _arguments_start(running: BytecodeStatement, name: str, call: int) -> int:
    """Return the offset at which the arguments of a call begin, after the method or function was loaded."""
    offsets = [
        load.offset for load in (*running.attributes, *running.loads) if load.name == name and load.offset < call
    ]
    return max(offsets, default=running.start) + 1


def names_bound_to(value: Any, frame: FrameType) -> set[str]:
    """Return the names under which the running statement loads a value."""
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    lookup = _name_lookup(frame)
    return {load.name for load in running.loads if lookup(load.name) is value} if running is not None else set()


def loaded_values(frame: FrameType, within: str | Span | None = None) -> list[tuple[Any, int]]:
    """Return the values of the names that the running statement loads, with the number of loads."""
    running = statement_at(bytecode_statements(frame.f_code), frame.f_lasti)
    if running is None:
        return []
    if within is None:
        target = store_target_span(frame.f_code, frame.f_lasti, running.start)
        target_spans = [target] if target is not None else []
        outside = {load.name for load in running.loads if not is_within(load.offset, target_spans)}
        counts = Counter(load.name for load in running.loads if load.name in outside)
    else:
        start, end = _resolve_span(running, within, frame.f_lasti)
        counts = Counter(load.name for load in running.loads if start <= load.offset <= end)
    lookup = _name_lookup(frame)
    return [(value, times) for name, times in counts.items() if (value := lookup(name)) is not None]


def is_literal(value: Any, arguments: Iterable[Any], frame: FrameType) -> bool:
    """Return whether a list among the arguments of the running call is a literal of the code, and not computed.

    Equal items are no proof: small numbers and strings are the same objects everywhere.
    """
    ids = tuple(map(id, value))
    sites = literal_sites(frame.f_code).get(ids)
    if not sites:
        return False
    names = names_bound_to(value, frame)
    if names:
        definitions = [item for item in bytecode_statements(frame.f_code) if not names.isdisjoint(item.stores)]
        stored = [site.offset for site in sites if site.is_stored]
        return bool(definitions) and all(
            any(is_within(offset, [(item.start, item.end)]) for offset in stored) for item in definitions
        )
    count = sum(not names_bound_to(item, frame) for item in _equal_sequences(list(arguments), ids))
    return literals_passed(frame.f_code, sites, frame.f_lasti) >= max(count, 1)


def _equal_sequences(values: list[Any], ids: tuple[int, ...]) -> Iterator[Any]:
    """Yield the lists within values, and within containers in them, that have the same items."""
    for value in values:
        items = list(value.values()) if isinstance(value, dict) else value
        if isinstance(items, (list, tuple)):
            if len(items) == len(ids) and tuple(map(id, items)) == ids:
                yield value
            elif len(items) <= _MAX_READS:
                yield from _equal_sequences(list(items), ids)
