"""The interface of a backend, its registry, and the parts that backends share: patching, call tracing, recording."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from msgspec import Struct

from clew.capture.diagnostics import record_error
from clew.capture.emit.redaction import redacted_message
from clew.capture.environments.session import current_execution
from clew.capture.introspection.read_tracking import loaded_values, reads_in_statement, record_read
from clew.capture.introspection.user_code import guard, innermost_user_frame, is_user_code, strip_frame
from clew.capture.lineage.datasets import dataset_at
from clew.capture.lineage.frame_version import STATE_ATTR, FrameVersion, get_state
from clew.capture.lineage.operations import (
    ExplicitEdges,
    IdentityEdges,
    OperationRecord,
    OperationType,
    read_record,
    write_record,
)
from clew.capture.lineage.provenance import (
    Provenance,
    SeriesLineage,
    apply_direct,
    array_provenance,
    attach_to_array,
    union,
)
from clew.capture.lineage.transformations import INFERRED, TRANSFORMATION

if TYPE_CHECKING:
    from types import CodeType, FrameType, FunctionType, ModuleType

    from clew.capture.introspection.bytecode import Span

# In the order in which frames are looked up. Modules, not instances: a reference from here to the patched DuckDB would
# prevent that it is freed at exit, which it reports.
_MODULES = {name: f"clew.capture.backends.{name}.backend" for name in ("pandas", "polars", "duckdb")}
BACKEND_NAMES = tuple(_MODULES)
# Names not chosen by the user: dunder names, and IPython's output history (_, _1, …).
_GENERATED_NAME = re.compile(r"__|_\d*$")
# File name of the code of wrappers, and the functions that run an original.
_WRAPPER_FILE = "_clew_importlib_bootstrap.py"
_WRAPPER_PATH = str(Path(__file__).parent / _WRAPPER_FILE)
_TRACED_NAMES = ("_trace_call", "__getitem__")
_clock = time.perf_counter
_stack_frame = sys._getframe


class Backend(ABC):
    """Capture of one DataFrame library.

    Implementations are `backends/<name>/backend.py` with a subclass as `BACKEND`; `name` is the name of the library.
    """

    name: ClassVar[str]

    @property
    def module(self) -> Any:
        """The imported library."""
        return sys.modules[self.name]

    @property
    def version(self) -> str | None:
        """Version of the library; None while it is being imported."""
        return getattr(sys.modules.get(self.name), "__version__", None)

    @abstractmethod
    def install(self) -> None:
        """Patch the library."""

    @abstractmethod
    def uninstall(self) -> None:
        """Remove all patches."""

    @property
    @abstractmethod
    def frame_types(self) -> tuple[type, ...]:
        """The classes of its frames, which a query can read by variable name."""

    @property
    def data_types(self) -> tuple[type, ...]:
        """The classes of its frames that hold rows, for column metrics."""
        return self.frame_types

    @abstractmethod
    def snapshot(self, frame: Any) -> FrameVersion:
        """Create a version of a frame as it is now: columns, types, and row count and memory if known. Read no data."""

    def column_metrics(self, frame: Any, position: int, seconds: float, *, include_bounds: bool) -> dict[str, Any]:
        """Return nullCount, distinctCount (within a time, see `distinct_metrics`), and min and max of a number."""
        raise NotImplementedError

    def memory_bytes(self, frame: Any) -> tuple[int, bool]:
        """Return the memory of a frame as the library reports it, and whether that is exact."""
        raise NotImplementedError

    def attached_version(self, frame: Any) -> FrameVersion | None:
        """Return the version attached to a frame, if any."""
        state = getattr(frame, "__dict__", {}).get(STATE_ATTR)
        return state if isinstance(state, FrameVersion) else None

    def attach_version(self, frame: Any, version: FrameVersion) -> None:
        """Attach a version to its frame."""
        frame.__dict__[STATE_ATTR] = version

    def current_version(self, frame: Any) -> FrameVersion:
        """Return the version of a frame; create one if it has none."""
        version = self.attached_version(frame)
        if version is None:
            version = self.snapshot(frame)
            self.attach_version(frame, version)
        return version

    def record(self, call: Call, operation: OperationRecord, frame: Any = None) -> None:
        """Record the operation of a call, which created `frame`."""
        record_operation(operation, self.name, call.location(), frame)

    def record_copy(self, call: Call, source: FrameVersion | None, frame: Any) -> None:
        """Record that a call created `frame` with the columns of `source`, if it is known."""
        edges = IdentityEdges(source) if source is not None else ExplicitEdges({})
        parents = (source,) if source is not None else ()
        self.record(call, OperationRecord(call.name, call.kind, snapshot(frame), edges, {}, parents), frame)

    def record_read(self, call: Call) -> None:
        """Record that a call read a frame from the file or the files of its first argument."""
        source = call.first_argument()
        paths = source if isinstance(source, (list, tuple)) else [source]
        version = self.snapshot(call.result)
        provenance = text_provenance(call, source)
        if provenance:
            edges = ExplicitEdges(dict.fromkeys(version.columns, provenance))
            self.record(call, OperationRecord(call.name, "creation", version, edges), call.result)
        else:
            self.record(call, read_record(call.name, paths, version), call.result)

    def record_write(self, call: Call) -> None:
        """Record that a call wrote its receiver to the file of its first argument."""
        version = version_of_frame(call.receiver)
        operation = write_record(call.name, call.first_argument(), version)
        if operation is not None:
            self.record(call, operation)
        else:
            record_text(call, call.first_argument(), version)


def get_backend(name: str) -> Backend:
    """Return a backend by name; its module is imported on first use."""
    module = sys.modules.get(_MODULES[name])
    if module is None or not hasattr(module, "BACKEND"):
        # Waits for another thread that imports it.
        module = importlib.import_module(_MODULES[name])
    return cast("Backend", module.BACKEND)


def used_backends() -> list[Backend]:
    """Return the backends that may be installed."""
    return [get_backend(name) for name, module in _MODULES.items() if module in sys.modules]


def engine_versions() -> dict[str, str]:
    """Return the versions of the imported libraries by name."""
    modules = {name: sys.modules[name] for name in _MODULES if name in sys.modules}
    return {name: version for name, module in modules.items() if (version := getattr(module, "__version__", None))}


def loaded_backends() -> list[Backend]:
    """Return the backends of the imported libraries; nothing is imported that the user did not import."""
    return [get_backend(name) for name in engine_versions() if not _is_importing(sys.modules[name])]


def _is_importing(module: ModuleType) -> bool:
    """Return whether a module is being imported, as seen by another thread: it may have no classes yet."""
    return getattr(module.__spec__, "_initializing", False)


def backend_of(value: Any) -> Backend | None:
    """Return the backend of a frame; None if the value is no frame."""
    return next((backend for backend in loaded_backends() if isinstance(value, backend.frame_types)), None)


def is_frame(value: Any) -> bool:
    """Return whether a value is a frame of any backend."""
    return backend_of(value) is not None


def snapshot(frame: Any) -> FrameVersion:
    """Create a version of a frame of any backend."""
    return require_backend(frame).snapshot(frame)


def version_of_frame(frame: Any) -> FrameVersion:
    """Return the version of a frame of any backend; create one if it has none."""
    return frame if isinstance(frame, FrameVersion) else require_backend(frame).current_version(frame)


def require_backend(frame: Any) -> Backend:
    """Return the backend of a frame; raise TypeError for any other value."""
    backend = backend_of(frame)
    if backend is None:
        msg = f"{type(frame).__name__} is not a frame"
        raise TypeError(msg)
    return backend


class BoundFrame(NamedTuple):
    """A variable that holds a frame."""

    name: str
    frame: Any
    version: FrameVersion


def bound_frames(namespace: Mapping[str, Any]) -> list[BoundFrame]:
    """Return the variables of a notebook that hold tracked frames."""
    # Copy first: another thread may add variables during the iteration.
    variables = list(namespace.items())
    return [
        BoundFrame(name, frame, version)
        for backend in loaded_backends()
        for name, frame in variables
        if isinstance(frame, backend.data_types)
        and (version := backend.attached_version(frame)) is not None
        and not _is_generated_name(name)
    ]


def _is_generated_name(name: str) -> bool:
    return name.startswith("_") and _GENERATED_NAME.match(name) is not None


class Location(NamedTuple):
    """Code location and time of a call. Not the stack frame, which would retain the variables of the caller."""

    code: CodeType
    instruction: int
    # Seconds of `perf_counter`.
    started: float
    duration: float


class Call(Struct, eq=False):
    """One call from user code: method, receiver, arguments, result and calling stack frame."""

    name: str
    # None for a function of a module.
    receiver: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # State of the receiver before the call.
    pre_state: Any
    caller: FrameType
    # Type of the recorded operation; a rule may change it.
    kind: OperationType = "transformation"
    is_module_function: bool = False
    result: Any = None
    # Seconds of `perf_counter`; 0 if the wrapper does not time its calls.
    started: float = 0.0
    ended: float = 0.0

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument that was passed by position or by name."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if len(self.args) > position else default

    def first_argument(self) -> Any:
        """Return the first argument, whatever its name."""
        return self.args[0] if self.args else next(iter(self.kwargs.values()), None)

    def values(self) -> list[Any]:
        """Return all arguments."""
        return [*self.args, *self.kwargs.values()] if self.kwargs else list(self.args)

    def location(self) -> Location:
        """Return the code location and the time of the call."""
        return Location(self.caller.f_code, self.caller.f_lasti, self.started, self.ended - self.started)

    @property
    def is_in_place(self) -> bool:
        """True if the call mutated its receiver instead of returning a new object."""
        return bool(self.kwargs.get("inplace")) and (self.result is None or self.result is self.receiver)

    @property
    def output_frame(self) -> Any:
        """The frame that the call created or mutated."""
        return self.receiver if self.is_in_place else self.result


Rule = Callable[[Call], None]
ReadState = Callable[[Any], Any]
# Runs before the call: may set `pre_state`, and returns the arguments for the original function.
Prepare = Callable[[Call], tuple[tuple[Any, ...], dict[str, Any]]]


def noop(_: Any) -> None:
    """Read no state before the call."""


class Tracing(NamedTuple):
    """How a function is traced: its rule, the callbacks that run before the call, and the type of its operations."""

    rule: Rule
    read_state: ReadState = noop
    prepare: Prepare | None = None
    kind: OperationType = "transformation"


class Patch(NamedTuple):
    """A patched function: the original, and how it is traced."""

    original: Callable[..., Any]
    name: str
    tracing: Tracing
    is_function: bool = False


def _trace_call(
    patch: Patch,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    caller: FrameType,
    engine: str = "",
    finish: Rule = noop,
) -> Any:
    original, name, (rule, read_state, prepare, kind), is_function = patch
    guard.depth = 1
    try:
        if is_function:
            call = Call(name, None, args, kwargs, None, caller, kind, is_function)
        else:
            call = Call(name, args[0], args[1:], kwargs, None, caller, kind)
        if read_state is not noop:
            try:
                call.pre_state = read_state(args[0])
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                record_error(name, error)
        if prepare is not None:
            args, kwargs = _prepare_call(patch, call, args, kwargs)
        call.started = _clock()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            strip_frame(error)
            record_failure(call, error, engine)
            raise
        call.ended = _clock()
        call.result = result
        try:
            rule(call)
            finish(call)
        except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
            record_error(name, error)
        return result
    finally:
        guard.depth = 0


class RunningOperation(NamedTuple):
    """A call from user code that has not returned yet, as far as it is known before its rule runs."""

    method: str
    kind: OperationType
    is_module_function: bool
    location: Location
    parents: tuple[FrameVersion, ...]
    engine: str
    query: str | None


def find_running_operation(thread: int) -> RunningOperation | None:
    """Return the operation that a thread is in; found on its stack, so that it costs a call nothing."""
    found = None
    frame = sys._current_frames().get(thread)
    while frame is not None:
        # The outermost call: inner ones are part of it.
        if frame.f_code.co_name in _TRACED_NAMES and frame.f_code.co_filename.endswith(_WRAPPER_FILE):
            found = frame
        frame = frame.f_back
    return _describe_running(found.f_locals) if found is not None else None


def _describe_running(variables: dict[str, Any]) -> RunningOperation | None:
    """Describe a call by the variables of its wrapper."""
    call, engine = variables.get("call"), variables.get("engine", "pandas")
    if call is None and "started" in variables:
        # `df[key]` has a wrapper of its own.
        call = Call("__getitem__", variables["self"], (variables["key"],), {}, None, variables["caller"], "selection")
        call.started = variables["started"]
    if call is None or not call.started or call.ended or not is_user_code(call.caller.f_code):
        return None
    prefix = getattr(get_state(call.receiver), "prefix", None)
    method = "DataFrame" if call.name == "__init__" else f"{prefix}.{call.name}" if prefix else call.name
    frames = [value for value in (call.receiver, *call.values()) if is_frame(value)]
    versions = [get_state(frame) for frame in frames]
    return RunningOperation(
        method,
        call.kind,
        call.is_module_function or method in ("DataFrame", "merge"),
        Location(call.caller.f_code, call.caller.f_lasti, call.started, 0.0),
        tuple(version for version in versions if isinstance(version, FrameVersion) and version.is_real),
        engine,
        getattr(call.pre_state, "text", None),
    )


def _prepare_call(
    patch: Patch, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for the original function, with callbacks wrapped or evaluated."""
    try:
        new_args, kwargs = patch.tracing.prepare(call)  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error(patch.name, error)
        return args, kwargs
    if patch.is_function:
        call.args, call.kwargs = new_args, kwargs
        return new_args, kwargs
    return (args[0], *new_args), kwargs


class Patcher:
    """Installs wrappers in a library, and restores the originals.

    The file name of the wrappers' code makes them invisible to warnings: Python skips files with `importlib` and
    `_bootstrap` in their names when it counts stack levels. The file is outside of the folder of the library, whose
    frames some libraries count themselves. Wrappers remove themselves from tracebacks.
    """

    def __init__(self, library: str, engine: str | None = None, finish: Rule = noop) -> None:
        self.library = library
        # Runs after the rule of every call.
        self._finish = finish
        self._engine = engine or library
        self._installed: list[tuple[Any, str, Any, bool]] = []
        self._patched: set[tuple[int, str]] = set()

    @functools.cached_property
    def trace(self) -> Callable[[Patch, tuple[Any, ...], dict[str, Any], FrameType], Any]:
        """Run an original function and then its rule; one copy per library, with its file name and its engine."""
        function = cast("FunctionType", _trace_call)
        code = _with_filename(function.__code__, _WRAPPER_PATH)
        return type(function)(code, function.__globals__, argdefs=(self._engine, self._finish))

    def method(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Trace every user call of a method."""
        original = getattr(owner, name)
        patch, trace = Patch(original, name, tracing), self.trace

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if guard.depth:
                    # Saves copying an empty mapping.
                    return original(self, *args, **kwargs) if kwargs else original(self, *args)
                return trace(patch, (self, *args), kwargs, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, name, wrapper, original)

    def function(self, module: ModuleType, name: str, tracing: Tracing) -> None:
        """Trace every user call of a function of a module."""
        original = getattr(module, name)
        patch, trace = Patch(original, name, tracing, is_function=True), self.trace

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            try:
                if guard.depth:
                    return original(*args, **kwargs) if kwargs else original(*args)
                return trace(patch, args, kwargs, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(module, name, wrapper, original)

    def wrap(self, owner: Any, name: str, wrapper: Any, original: Any) -> None:
        """Install a wrapper with the name and the documentation of the original."""
        functools.update_wrapper(wrapper, original)
        self.replace(owner, name, wrapper, original)

    def replace(self, owner: Any, name: str, replacement: Any, original: Any = None) -> None:
        """Install any replacement, unless the attribute is patched already."""
        if (id(owner), name) in self._patched:
            return
        if original is None:
            original = vars(owner).get(name) or getattr(owner, name)
        if inspect.isfunction(replacement):
            self.spoof_filename(replacement)
        self._patched.add((id(owner), name))
        self._installed.append((owner, name, original, name in vars(owner)))
        setattr(owner, name, replacement)

    def spoof_filename(self, function: Any) -> None:
        """Make a function invisible to warnings."""
        function.__code__ = _with_filename(function.__code__, _WRAPPER_PATH)

    def remove(self) -> None:
        """Restore all patched attributes."""
        self._patched.clear()
        while self._installed:
            owner, name, original, was_own_attribute = self._installed.pop()
            if was_own_attribute:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

    @property
    def is_installed(self) -> bool:
        """Return whether any wrapper is installed."""
        return bool(self._installed)


# Cached, so that wrappers of one kind share a code object: the interpreter specializes bytecode per code object.
@functools.cache
def _with_filename(code: CodeType, filename: str) -> CodeType:
    return code.replace(co_filename=filename)


def public_methods(owner: Any, ignored: frozenset[str]) -> list[str]:
    """Return the names of the public methods of a class; enumerated, so that those of new releases are patched too."""
    names = [name for name in dir(owner) if not name.startswith("_") and name not in ignored]
    return [name for name in names if inspect.isfunction(inspect.getattr_static(owner, name))]


def record_operation(record: OperationRecord, engine: str, location: Location, frame: Any = None) -> None:
    """Add an operation to the running execution, and attach its output to `frame`, the frame that it created."""
    record.engine = engine
    record.code, record.instruction, record.started, record.duration = location
    if record.output is not None:
        record.output.made_by = record
        if frame is not None:
            require_backend(frame).attach_version(frame, record.output)
    enqueue(record, _clock())


def enqueue(operation: OperationRecord, ended: float) -> None:
    """Add an operation that has just ended to the current execution."""
    execution = current_execution()
    if execution is None:
        operation.output = None
    elif is_user_code(operation.code):  # type: ignore[arg-type]
        operation.overhead = _clock() - ended
        execution.add(operation)
    else:
        # Called by a library: emitted only if its output reaches user code.
        operation.is_pending = True
        execution.session.has_pending = True
        frame = innermost_user_frame(_stack_frame(1))
        if frame is not None:
            operation.code, operation.instruction = frame.f_code, frame.f_lasti


def statement_provenance(call: Call, scope: str | Span | None = None) -> Provenance:
    """Infer a value from everything that the running statement read: columns, frames, Series and arrays.

    `scope` limits this to the arguments of the named call, or to a bytecode span.
    """
    reads = reads_in_statement(call.caller, scope)
    current = reads_in_statement(call.caller, scope, current_only=True)
    read_versions = {version for read in current for version, _ in read}
    values = [_loaded_provenance(value, read_versions) for value, _ in loaded_values(call.caller, scope)]
    return apply_direct(union(*reads, *values), TRANSFORMATION | INFERRED)


def record_text(call: Call, target: Any, version: FrameVersion) -> None:
    """Record that a call returned a frame as text, or wrote it into a buffer."""
    if isinstance(call.result, (str, bytes)):
        record_read(call.caller, version)
    elif target is not None:
        # An object of the user may have no weak references.
        with contextlib.suppress(TypeError):
            attach_to_array(target, version.fields(), version)


def text_provenance(call: Call, source: Any) -> Provenance:
    """Return the provenance of a text or a buffer that a call reads; empty for a file."""
    if isinstance(source, (list, tuple)) or dataset_at(source) is not None:
        return {}
    known = array_provenance(source)
    return apply_direct(known, TRANSFORMATION | INFERRED) if known else statement_provenance(call, call.name)


def _loaded_provenance(value: Any, read_versions: set[FrameVersion]) -> Provenance | None:
    backend = backend_of(value)
    if backend is not None:
        # A lazy frame has no rows to read, and a frame with column reads was not used as a whole.
        version = backend.current_version(value) if isinstance(value, backend.data_types) else None
        return version.fields() if version is not None and version not in read_versions else None
    state = get_state(value)
    return state.combined() if isinstance(state, SeriesLineage) else array_provenance(value)


def record_failure(call: Call, error: BaseException, engine: str) -> None:
    """Record that a call from user code raised an exception."""
    execution = current_execution()
    if execution is None or not isinstance(error, Exception) or not is_user_code(call.caller.f_code):
        return
    parents = (call.pre_state,) if isinstance(call.pre_state, FrameVersion) else ()
    call.ended = _clock()
    call.started = call.started or call.ended
    operation = OperationRecord(call.name, "unknown", None, ExplicitEdges({}), {}, parents, call.is_module_function)
    operation.error = (type(error).__name__, redacted_message(error, execution.cell.source))
    record_operation(operation, engine, call.location())
