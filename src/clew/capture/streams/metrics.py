"""Column metrics of the frames that variables hold when a cell ends."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.foreign import is_polars
from clew.capture.guard import own_code
from clew.capture.losses import count_loss
from clew.capture.sessions import current_execution
from clew.capture.versions import STATE, FrameVersion, listed

if TYPE_CHECKING:
    from clew.capture.records import Record
    from clew.capture.sessions import Execution

# Distinct values are counted exactly up to here; beyond, in a sample of this many rows.
_EXACT_ROWS = 100_000
_SAMPLED_ROWS = 10_000
_COLUMNS_MEASURED = 200
_FEW = 100
_EXACT_IN_FLOATS = 2**53
# Share of a cell's own time that its metrics may take, and what they may take in any case.
_SHARE = 0.05
_LEAST_SECONDS = 0.05
# Names that nobody gave: those of modules, and under which IPython keeps what cells have shown.
_NAMELESS = re.compile(r"__|_\d*$")


class Held(NamedTuple):
    """A variable that holds a frame."""

    name: str
    frame: Any
    version: FrameVersion


def frames_held(namespace: dict[str, Any]) -> list[Held]:
    """The variables of a notebook that hold frames which capture knows."""
    modules = [sys.modules[name] for name in ("pandas", "polars") if name in sys.modules]
    kinds = tuple([module.DataFrame for module in modules])
    # A copy of the whole first: another thread may add to it meanwhile.
    frames = [one for one in list(namespace.items()) if isinstance(one[1], kinds)]
    return [
        Held(name, frame, version)
        for name, frame in frames
        if isinstance(version := getattr(frame, STATE, None), FrameVersion) and not _is_nameless(name)
    ]


def _is_nameless(name: str) -> bool:
    return name.startswith("_") and _NAMELESS.match(name) is not None


def measured(execution: Execution, held: list[Held]) -> dict[FrameVersion, dict[str, Any]]:
    """Metrics of each frame that this execution made and a variable still holds, and of its files, within a budget."""
    made = {record.output for record in execution.records}
    found = _told_files(execution, made) if execution.metrics else {}
    if not made or not held or not _are_wanted():
        return found
    deadline = time.perf_counter() + max(_LEAST_SECONDS, execution.duration * _SHARE)
    with own_code():
        for _, frame, version in held:
            if version in made and (version not in found or "omitted" in found[version]):
                _measure(frame, version, deadline, found)
    return found


def _told_files(execution: Execution, made: set[FrameVersion | None]) -> dict[FrameVersion, dict[str, Any]]:
    # Of the rounds of a loop only the first is told.
    written = {version for record in execution.records if record.kind == "io" for version in record.parents}
    return {version: known for version, known in execution.metrics.items() if version in made or version in written}


def measure_file(frame: Any, version: FrameVersion, entry: Record) -> None:
    """Metrics of a frame that came from a file or went to one: when the cell ends no variable may hold it."""
    execution = current_execution()
    if execution is None or entry.is_pending or version in execution.metrics or not _are_wanted():
        return
    started = time.perf_counter()
    allowed = max(_LEAST_SECONDS - execution.seconds_measuring, entry.duration * _SHARE)
    _measure(frame, version, started + allowed, execution.metrics)
    spent = time.perf_counter() - started
    execution.seconds_measuring += spent
    entry.overhead += spent


def _are_wanted() -> bool:
    return os.environ.get("CLEW_METRICS") != "off"


def _measure(frame: Any, version: FrameVersion, deadline: float, found: dict[FrameVersion, dict[str, Any]]) -> None:
    # Of numbers only: a string's minimum would be one of the user's values.
    tells_bounds = os.environ.get("CLEW_METRICS") != "counts"
    try:
        found[version] = frame_metrics(frame, deadline, tells_bounds=tells_bounds)
    except Exception as error:  # noqa: BLE001 - metrics are an extra: their failure costs only themselves
        count_loss("metrics", error)


def frame_metrics(frame: Any, deadline: float, *, tells_bounds: bool = True) -> dict[str, Any]:
    """Rows of a frame and metrics of its columns; `omitted` names those that the budget left out."""
    of_polars = is_polars(frame)
    columns: dict[str, Any] = {}
    omitted: list[str] = []
    rows = len(frame)
    step = max(1, rows // _SAMPLED_ROWS) if rows > _EXACT_ROWS else 1
    for place, label in enumerate(frame.columns if of_polars else listed(frame.columns)):
        if place >= _COLUMNS_MEASURED or time.perf_counter() > deadline:
            omitted.append(str(label))
        elif of_polars:
            columns[str(label)] = _series_metrics(frame.to_series(place), step, tells_bounds=tells_bounds)
        else:
            # The array itself: a Series around each would cost more than to count it.
            columns[str(label)] = _column_metrics(frame._mgr.iget_values(place), step, tells_bounds=tells_bounds)
    found: dict[str, Any] = {"rowCount": rows, "columnMetrics": columns}
    if step > 1:
        found["sampled"] = True
    if omitted:
        found["omitted"] = omitted[:_COLUMNS_MEASURED]
    return found


def _series_metrics(series: Any, step: int, *, tells_bounds: bool) -> dict[str, Any]:
    """The same by polars' own functions."""
    nulls = series.null_count()
    found: dict[str, Any] = {"nullCount": nulls}
    # Of some nested types it cannot tell which values are the same.
    with contextlib.suppress(sys.modules["polars"].exceptions.PolarsError):
        given = (series.gather_every(step) if step > 1 else series).drop_nulls()
        found["distinctCount"] = given.n_unique()
    if series.dtype.is_numeric() and len(series) > nulls and tells_bounds:
        found |= _bounds(series.min(), series.max())
    return found


def _column_metrics(values: Any, step: int, *, tells_bounds: bool) -> dict[str, Any]:
    is_number = values.dtype.kind in "iuf"
    if is_number and type(values).__module__ == "numpy":
        if len(values) > _FEW:
            return _number_metrics(values, step, tells_bounds=tells_bounds)
        return _few_numbers(values, tells_bounds=tells_bounds)
    text = getattr(values, "_pa_array", None)
    if text is not None and len(values) <= _FEW and isinstance(values.dtype, sys.modules["pandas"].StringDtype):
        given = set(text.to_pylist()) - {None}
        return {"nullCount": text.null_count, "distinctCount": len(given)}
    nulls = sys.modules["pandas"].isna(values)
    count = int(sys.modules["numpy"].count_nonzero(nulls))
    found: dict[str, Any] = {"nullCount": count}
    # Lists and dicts cannot be hashed.
    with contextlib.suppress(TypeError, AttributeError):
        found["distinctCount"] = _distinct(values, nulls, count, step)
    if is_number and tells_bounds:
        found |= _bounds(values._reduce("min"), values._reduce("max"))
    return found


def _few_numbers(values: Any, *, tells_bounds: bool) -> dict[str, Any]:
    """The same of numbers so few that to call numpy takes longer than to look at each."""
    given = values.tolist()
    if values.dtype.kind == "f":
        given = [number for number in given if number == number]  # noqa: PLR0124 - NaN alone differs from itself
    found: dict[str, Any] = {"nullCount": len(values) - len(given), "distinctCount": len(set(given))}
    if given and tells_bounds:
        least, most = min(given), max(given)
        if least > -_EXACT_IN_FLOATS and most < _EXACT_IN_FLOATS:
            found["min"], found["max"] = float(least), float(most)
        else:
            found |= _bounds(least, most)
    return found


def _number_metrics(values: Any, step: int, *, tells_bounds: bool) -> dict[str, Any]:
    """The same straight from an array of numbers, in a tenth of the time."""
    numpy = sys.modules["numpy"]
    nulls = numpy.isnan(values) if values.dtype.kind == "f" else None
    count = int(numpy.count_nonzero(nulls)) if nulls is not None else 0
    found: dict[str, Any] = {"nullCount": count, "distinctCount": _distinct(values, nulls, count, step)}
    if len(values) > count and tells_bounds:
        found |= _bounds(numpy.fmin.reduce(values), numpy.fmax.reduce(values))
    return found


def _distinct(values: Any, nulls: Any, count: int, step: int) -> int:
    if step > 1:
        values, nulls = values[::step], nulls[::step] if count else None
    given = values[~nulls] if count else values
    # A set is faster than pandas' table, to begin with.
    return len(set(given.tolist())) if len(given) <= _FEW else len(sys.modules["pandas"].unique(given))


def _bounds(least: Any, most: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, bound in (("min", least), ("max", most)):
        number = _finite(bound)
        if number is not None:
            found[name] = number
    return found


def _finite(bound: Any) -> float | None:
    try:
        number = float(bound)
    except (TypeError, ValueError):
        return None
    # An integer that is too large for a float to be exact stays one.
    if abs(number) >= _EXACT_IN_FLOATS and isinstance(bound, (int, numbers.Integral)):
        return int(bound)
    return number if math.isfinite(number) else None
