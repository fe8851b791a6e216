"""Versions of frames of any backend: pandas, polars, DuckDB relations."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from clew.capture.environments.session import current_execution
from clew.capture.introspection.user_code import is_user_code
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion
from clew.capture.lineage.operations import OperationRecord

if TYPE_CHECKING:
    from types import CodeType

_BACKENDS = ("pandas", "polars", "duckdb")
# Relations are extension objects without attributes: their versions are stored here for their lifetime.
_relations: dict[int, tuple[weakref.ref[Any], FrameVersion]] = {}


def engine_versions() -> dict[str, str]:
    """Return the versions of the loaded backends by name."""
    modules = {name: sys.modules[name] for name in _BACKENDS if name in sys.modules}
    return {name: version for name, module in modules.items() if (version := getattr(module, "__version__", None))}


def is_frame(value: Any) -> bool:
    """Return whether a value is a frame that a query can read by its variable name."""
    return (
        _is_instance(value, "pandas", "DataFrame")
        or is_polars(value)
        or _is_instance(value, "duckdb", "DuckDBPyRelation")
    )


def is_polars(value: Any) -> bool:
    """Return whether a value is an eager or a lazy polars frame."""
    return _is_instance(value, "polars", "DataFrame") or _is_instance(value, "polars", "LazyFrame")


def _is_instance(value: Any, module: str, name: str) -> bool:
    # Uses loaded modules only: nothing is imported for the check.
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def version_of_frame(frame: Any) -> FrameVersion:
    """Return the version of a frame of any backend; create one if it has none."""
    if isinstance(frame, FrameVersion):
        return frame
    if _is_instance(frame, "pandas", "DataFrame"):
        from clew.capture.backends.pandas.state import current_version

        return current_version(frame)
    attached = attached_version(frame)
    return attached if attached is not None else attach_version(frame, describe_frame(frame))


def attached_version(frame: Any) -> FrameVersion | None:
    """Return the version attached to a frame, if any."""
    if is_polars(frame):
        from clew.capture.backends.polars.backend import resolve_version

        return resolve_version(frame)
    if hasattr(frame, "__dict__"):
        state = frame.__dict__.get(STATE_ATTR)
        return state if isinstance(state, FrameVersion) else None
    entry = _relations.get(id(frame))
    return entry[1] if entry is not None and entry[0]() is frame else None


def attach_version(frame: Any, version: FrameVersion) -> FrameVersion:
    """Attach a version to its frame."""
    if hasattr(frame, "__dict__"):
        frame.__dict__[STATE_ATTR] = version
        return version
    key = id(frame)

    # An id() is reused after garbage collection, so the weakref callback must drop the entry.
    def forget(_: object) -> None:
        _relations.pop(key, None)

    _relations[key] = (weakref.ref(frame, forget), version)
    return version


def describe_frame(frame: Any) -> FrameVersion:
    """Create a version that describes a frame as it is now."""
    if _is_instance(frame, "pandas", "DataFrame"):
        return FrameVersion.of(frame)
    version = FrameVersion(engine="polars" if is_polars(frame) else "duckdb")
    version.object_id = id(frame)
    if _is_instance(frame, "polars", "LazyFrame"):
        schema = frame.collect_schema()
        version.columns, types = list(schema.names()), list(schema.dtypes())
    elif _is_instance(frame, "polars", "DataFrame"):
        version.columns, types = list(frame.columns), list(frame.dtypes)
    else:
        # As strings: DuckDB warns if its type objects outlive it.
        version.columns, types = list(frame.columns), [*map(str, frame.dtypes)]
    version.blocks = [item for position, kind in enumerate(types) for item in (kind, (position,))]
    if _is_instance(frame, "polars", "DataFrame"):
        version.shape, version.nbytes = frame.shape, frame.estimated_size()
    return version


def record_operation(
    record: OperationRecord, engine: str, code: CodeType, instruction: int, started: float, duration: float
) -> None:
    """Set backend, time and code location of a record and add it to the running execution."""
    record.engine = engine
    record.code, record.instruction = code, instruction
    record.started, record.duration = started, duration
    if record.output is not None:
        record.output.made_by = record
    execution = current_execution()
    if execution is None:
        record.output = None
    elif is_user_code(code):
        execution.add(record)
    else:
        record.is_pending = True
        execution.session.has_pending = True
