"""Frames of other libraries than pandas: polars frames and DuckDB's relations."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from clew.capture.callers import is_user_code
from clew.capture.records import Record
from clew.capture.sessions import current_execution
from clew.capture.versions import STATE, FrameVersion

if TYPE_CHECKING:
    from types import CodeType

# Relations are compiled objects that take no attributes: their versions are kept beside them, for as long as they live.
_relations: dict[int, tuple[weakref.ref[Any], FrameVersion]] = {}


def is_frame(value: Any) -> bool:
    """Whether a value is a frame that a query can read by its name."""
    return _is(value, "pandas", "DataFrame") or is_polars(value) or _is(value, "duckdb", "DuckDBPyRelation")


def is_polars(value: Any) -> bool:
    """Whether a value is an eager or a lazy polars frame."""
    return _is(value, "polars", "DataFrame") or _is(value, "polars", "LazyFrame")


def _is(value: Any, module: str, name: str) -> bool:
    # Asked of modules that are loaded anyway: none is imported for it.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def version_of_frame(frame: Any) -> FrameVersion:
    """The version of a frame of any library; one not seen before gets its first."""
    if isinstance(frame, FrameVersion):
        return frame
    if _is(frame, "pandas", "DataFrame"):
        from clew.capture.frames.state import version_of

        return version_of(frame)
    known = known_version(frame)
    return known if known is not None else remembered(frame, described(frame))


def known_version(frame: Any) -> FrameVersion | None:
    """The version that a frame was given, if it was."""
    if is_polars(frame):
        from clew.capture.polars.steps import resolved

        return resolved(frame)
    if hasattr(frame, "__dict__"):
        found = frame.__dict__.get(STATE)
        return found if isinstance(found, FrameVersion) else None
    entry = _relations.get(id(frame))
    return entry[1] if entry is not None and entry[0]() is frame else None


def remembered(frame: Any, version: FrameVersion) -> FrameVersion:
    """Tie a version to its frame."""
    if hasattr(frame, "__dict__"):
        frame.__dict__[STATE] = version
        return version
    key = id(frame)

    # An id() is reused after garbage collection, so the weakref's death must drop the entry.
    def forget(_: object) -> None:
        _relations.pop(key, None)

    _relations[key] = (weakref.ref(frame, forget), version)
    return version


def described(frame: Any) -> FrameVersion:
    """A new version that describes a frame as it is now."""
    if _is(frame, "pandas", "DataFrame"):
        return FrameVersion.of(frame)
    version = FrameVersion()
    version.object_id = id(frame)
    if _is(frame, "polars", "LazyFrame"):
        schema = frame.collect_schema()
        version.columns, types = list(schema.names()), list(schema.dtypes())
    elif _is(frame, "polars", "DataFrame"):
        version.columns, types = list(frame.columns), list(frame.dtypes)
    else:
        # By name: DuckDB complains of its own types when one outlives it.
        version.columns, types = list(frame.columns), [*map(str, frame.dtypes)]
    version.blocks = [part for place, kind in enumerate(types) for part in (kind, (place,))]
    if _is(frame, "polars", "DataFrame"):
        version.shape, version.nbytes = frame.shape, frame.estimated_size()
    return version


def tell(entry: Record, code: CodeType, instruction: int, started: float, duration: float) -> None:
    """Date and place a record, and give it to the running execution."""
    entry.code, entry.instruction = code, instruction
    entry.started, entry.duration = started, duration
    if entry.output is not None:
        entry.output.made_by = entry
    execution = current_execution()
    if execution is None:
        entry.output = None
    elif is_user_code(code):
        execution.add(entry)
    else:
        entry.is_pending = True
        execution.session.has_pending = True
