"""Looking on at polars: the list of methods is derived from polars itself, so that a new one is never missed."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.capture.datasets import located_at
from clew.capture.flags import IDENTITY, OPAQUE, TRANSFORMATION
from clew.capture.foreign import described, is_frame, is_polars, remembered, tell, version_of_frame
from clew.capture.guard import guard
from clew.capture.losses import count_loss
from clew.capture.polars.expressions import of_series
from clew.capture.polars.steps import Step, resolved
from clew.capture.provenance import Provenance, SeriesState, through, union
from clew.capture.records import Kind, Listed, Record, SameLabels
from clew.capture.versions import STATE, FrameVersion
from clew.capture.written import outside, remember_written

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_installed: list[tuple[Any, str, Any]] = []
# `pipe` calls the user's function; the others make no frame or only show one.
_LEFT_ALONE = frozenset(["pipe", "glimpse", "show", "explain", "inspect", "profile", "equals", "collect_schema"])
_GROUP_AGGREGATES = ("sum", "mean", "median", "min", "max", "first", "last", "n_unique", "all")
_GROUPINGS = frozenset(["group_by", "group_by_dynamic", "rolling"])
_ARITHMETIC = "add sub mul truediv floordiv mod pow and or xor".split()
_OPERATORS = frozenset(
    [f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r")]
    + ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__invert__"]
)
_SAME_VALUES = frozenset(
    "alias rename clone head tail limit slice sample sort filter gather drop_nulls unique reverse to_frame".split()
)


def hook_polars() -> None:
    """Put every wrapper in place."""
    polars = sys.modules["polars"]
    _disguise(_observed)
    for owner in (polars.DataFrame, polars.LazyFrame):
        for name in (*_public(owner), "__getitem__", "__init__"):
            _hook_method(owner, name)
    for name in (*_public(polars.Series), *_OPERATORS):
        _hook_method(polars.Series, name)
    for groups in _group_classes(polars):
        for name in ("agg", "len", "head", "tail", *_GROUP_AGGREGATES):
            _hook_method(groups, name)
    for name in dir(polars):
        if name.startswith(("read_", "scan_")) or name in ("concat", "from_pandas"):
            _hook_function(polars, name)


def remove_hooks() -> None:
    """Take every wrapper out again."""
    while _installed:
        owner, name, original = _installed.pop()
        setattr(owner, name, original)


def _group_classes(polars: Any) -> list[type]:
    frame = polars.DataFrame({"a": [1]})
    return [type(frame.group_by("a")), type(frame.lazy().group_by("a"))]


def _public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_") and name not in _LEFT_ALONE]


def _hook_method(owner: Any, name: str) -> None:
    original = inspect.getattr_static(owner, name, None)
    if not inspect.isfunction(original):
        return

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _observed(_after_method, name, original, (self, *args), kwargs, sys._getframe(1))

    _put(owner, name, wrapper, original)


def _hook_function(module: Any, name: str) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _observed(_after_function, name, original, args, kwargs, sys._getframe(1))

    _put(module, name, wrapper, original)


def _put(owner: Any, name: str, wrapper: Any, original: Any) -> None:
    _disguise(wrapper)
    _installed.append((owner, name, original))
    setattr(owner, name, wrapper)


def _disguise(function: Any) -> None:
    """polars blames warnings on the first frame outside its own folder: what calls it for the user must seem inside."""
    function.__code__ = _disguised(function.__code__)


# Once for all wrappers of a kind: the interpreter learns how to run code fast while it runs, for each code anew.
@functools.cache
def _disguised(code: CodeType) -> CodeType:
    return code.replace(co_filename=str(Path(sys.modules["polars"].__file__ or "").parent / "_clew.py"))


def _observed(
    after: Callable[[Step, tuple[Any, ...], Any], None],
    name: str,
    original: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    caller: FrameType,
) -> Any:
    if guard.depth:
        return original(*args, **kwargs)
    step = Step(name, [], args[1:], kwargs, caller)
    guard.depth = 1
    try:
        if name == "collect":
            # Before it runs: its steps come before it.
            _guarded(resolved, args[0])
        result = original(*args, **kwargs)
        step.ended()
        _guarded(after, step, args, result)
    finally:
        guard.depth = 0
    return result


def _guarded(action: Callable[..., Any], *arguments: Any) -> None:
    try:
        action(*arguments)
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss("polars", error)


def _after_method(step: Step, args: tuple[Any, ...], result: Any) -> None:
    subject = args[0]
    if isinstance(subject, sys.modules["polars"].Series):
        _after_series(step, subject, result)
    elif isinstance(result, sys.modules["polars"].Series):
        _taken(step, subject, result)
    elif step.name == "__init__":
        _created(step, subject, step.args[0] if step.args else step.kwargs.get("data"))
    elif step.name in _GROUPINGS:
        result.__dict__[STATE] = (subject, _keys(step))
    elif isinstance(subject.__dict__.get(STATE), tuple):
        _aggregated(step, subject.__dict__[STATE], result)
    elif step.name.startswith(("write_", "sink_")):
        _wrote(step, subject)
    elif is_polars(result):
        _made(step, [subject, *[value for value in step.args if is_polars(value)]], result)
    elif is_frame(result):
        _converted(step, subject, result)


def _taken(step: Step, frame: Any, series: Any) -> None:
    """frame["column"], frame.get_column("column"): a column carries its provenance and is not told."""
    version = version_of_frame(frame)
    is_column = step.name in ("__getitem__", "get_column", "to_series") and version.has(series.name)
    found = version.field(series.name) if is_column else version.fields(None, TRANSFORMATION | OPAQUE)
    series.__dict__[STATE] = SeriesState(found)


def _after_series(step: Step, series: Any, result: Any) -> None:
    """A method of a Series composes provenance; a frame made of it is told."""
    operands = [value for value in step.args if isinstance(value, type(series))]
    step_taken = IDENTITY if step.name in _SAME_VALUES else TRANSFORMATION
    found = through(union(*[of_series(one) for one in (series, *operands)]), step_taken)
    if isinstance(result, type(series)):
        result.__dict__[STATE] = SeriesState(found)
    elif is_polars(result) and found:
        version = described(result)
        fields: dict[Any, Provenance] = dict.fromkeys(version.columns, found)
        tell(Record(step.name, "selection", version, Listed(fields)), *step.place())
        remembered(result, version)


def _made(step: Step, parents: list[Any], result: Any) -> None:
    step.parents = parents
    if any(result is parent for parent in parents):
        # Changed in place: its own past is its source.
        step.parents = [version_of_frame(parent) for parent in parents]
    result.__dict__[STATE] = step
    if hasattr(result, "shape"):
        resolved(result)


def _keys(step: Step) -> list[Any]:
    given = [step.kwargs["index_column"]] if "index_column" in step.kwargs else list(step.args)
    keys = [one for part in given for one in (part if isinstance(part, (list, tuple)) else [part])]
    named = [value.alias(name) for name, value in step.kwargs.items() if hasattr(value, "alias")]
    return [*keys, *named]


def _aggregated(step: Step, groups: tuple[Any, list[Any]], result: Any) -> None:
    """group_by(keys).agg(expressions), and the shorter forms."""
    subject, keys = groups
    if step.name in ("head", "tail"):
        step.name, step.args, step.kwargs = "group_head", (keys,), {}
        _made(step, [subject], result)
        return
    polars = sys.modules["polars"]
    expressions = [one for part in step.args for one in (part if isinstance(part, (list, tuple)) else [part])]
    named = dict(step.kwargs)
    if step.name != "agg":
        every = polars.all() if step.name == "all" else getattr(polars.all(), step.name, polars.all)()
        expressions, named = ([] if step.name == "len" else [every]), {}
    step.name, step.args, step.kwargs = "agg", (keys, expressions, named), {}
    _made(step, [subject], result)


def _created(step: Step, frame: Any, data: Any) -> None:
    """pl.DataFrame(data)."""
    step.name = type(frame).__name__
    if isinstance(data, dict):
        version = described(frame)
        series = {label: value for label, value in data.items() if hasattr(value, "to_frame")}
        fields: dict[Any, Provenance] = {label: of_series(value) for label, value in series.items()}
        tell(Record(step.name, "creation", version, Listed(fields)), *step.place())
        remembered(frame, version)
    else:
        _told(step, "creation", frame, version_of_frame(data) if is_frame(data) else None)


def _converted(step: Step, subject: Any, result: Any) -> None:
    """frame.to_pandas()."""
    _told(step, "selection", result, version_of_frame(subject))


def _told(step: Step, kind: Kind, frame: Any, source: FrameVersion | None) -> None:
    version = described(frame)
    entry = Record(step.name, kind, version, SameLabels(source, IDENTITY) if source is not None else Listed({}))
    entry.parents = (source,) if source is not None else ()
    tell(entry, *step.place())
    remembered(frame, version)


def _after_function(step: Step, args: tuple[Any, ...], result: Any) -> None:
    if not is_polars(result):
        return
    first = args[0] if args else next(iter(step.kwargs.values()), None)
    if step.name == "concat":
        _made(step, list(first or ()), result)
    elif step.name == "from_pandas":
        _told(step, "selection", result, version_of_frame(first) if is_frame(first) else None)
    else:
        _read(step, first, result)


def _read(step: Step, target: Any, result: Any) -> None:
    """pl.read_*, pl.scan_*: every column is the file's column of that name."""
    files = [located_at(one) for one in (target if isinstance(target, (list, tuple)) else [target])]
    sources = [outside(dataset) for dataset in files if dataset is not None]
    version = described(result)
    fields: dict[Any, Provenance] = {
        label: union(*[{(source, label): IDENTITY} for source in sources]) for label in version.columns
    }
    entry = Record(step.name, "io", version, Listed(fields))
    entry.read_from = sources[0] if sources else None
    tell(entry, *step.place())
    remembered(result, version)


def _wrote(step: Step, subject: Any) -> None:
    """frame.write_*, frame.sink_*: the file's columns are the frame's."""
    target = step.args[0] if step.args else next(iter(step.kwargs.values()), None)
    dataset = located_at(target)
    if dataset is None:
        return
    version = version_of_frame(subject)
    written = outside(dataset)
    written.columns = list(version.columns)
    written.shape = version.shape
    entry = Record(step.name, "io", written, SameLabels(version))
    entry.parents = (version,)
    tell(entry, *step.place())
    remember_written(written)
