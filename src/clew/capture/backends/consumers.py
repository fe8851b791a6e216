"""Charts, models and tables that read frames: each call is an operation that writes a dataset `chart:…` or `model:…`.

Its columns are those that the call uses, so that downstream lineage and impact reach the chart or the model.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.backends.base import Location, Patcher, get_backend, is_frame, record_operation, version_of_frame
from clew.capture.diagnostics import record_error
from clew.capture.environments.session import Execution, current_execution
from clew.capture.introspection.user_code import guard, innermost_user_frame, strip_frame
from clew.capture.lineage.datasets import ExternalDataset
from clew.capture.lineage.operations import ExplicitEdges, OperationRecord, external_version
from clew.capture.lineage.provenance import Provenance, union

if TYPE_CHECKING:
    from types import FrameType

CHART, MODEL, TABLE = "chart", "model", "table"
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_TYPE_SUFFIX = re.compile(r":[A-Z]$")
_AXES_METHODS = (
    "plot scatter bar barh hist hist2d hexbin boxplot violinplot pie stem step fill_between stackplot errorbar ecdf "
    "loglog semilogx semilogy eventplot"
).split()
_FIT_METHODS = ("fit", "fit_transform", "fit_predict", "partial_fit")


class _Nesting(threading.local):
    """Whether a consumer runs in this thread: seaborn calls matplotlib, a pipeline fits its steps."""

    is_inside = False


_nesting = _Nesting()
_patchers: list[Patcher] = []


class Consumer(NamedTuple):
    """Kind of consumer, and the name of its chart or model, which may depend on the receiver."""

    kind: str
    name: Callable[[Any], str]
    # Frames and arguments that are not among the arguments of the call: those that a chart holds.
    extra_values: Callable[[Any], Iterable[Any]] = lambda _: ()


def _install(library: str, owner: Any, names: Iterable[str], consumer: Consumer) -> None:
    patches = next((item for item in _patchers if item.library == library), None)
    if patches is None:
        patches = Patcher(library)
        _patchers.append(patches)
    for name in names:
        original = getattr(owner, name, None)
        if original is not None:
            patches.wrap(owner, name, _wrap(original, consumer), original)


def uninstall_consumers() -> None:
    """Remove all patches."""
    while _patchers:
        _patchers.pop().remove()


def _wrap(original: Any, consumer: Consumer) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        execution = current_execution()
        if execution is None or _nesting.is_inside or guard.depth:
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                strip_frame(error)
                raise
        _nesting.is_inside = True
        started = time.perf_counter()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            strip_frame(error)
            raise
        finally:
            _nesting.is_inside = False
        try:
            receiver = args[0] if args else None
            values = [*args, *consumer.extra_values(result), *kwargs.values()]
            _record(execution, consumer.kind, consumer.name(receiver), values, sys._getframe(1), started)
        except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
            record_error(getattr(original, "__name__", consumer.kind), error)
        return result

    return wrapper


def _record(
    execution: Execution, kind: str, name: str, values: list[Any], frame: FrameType | None, started: float
) -> None:
    frame = innermost_user_frame(frame)
    fields = _used_columns(values)
    if frame is None or not fields:
        return
    key = (id(frame.f_code), frame.f_lasti)
    if key not in execution.consumers:
        count = sum(existing.partition("#")[0] == name for existing in execution.consumers.values())
        execution.consumers[key] = name if not count else f"{name}#{count + 1}"
    dataset = ExternalDataset(kind, f"{execution.session.stem}/{execution.cell.label}/{execution.consumers[key]}")
    output = external_version(dataset)
    output.columns = list(fields)
    record = OperationRecord(name.rpartition(".")[2], "io", output, ExplicitEdges(fields))
    location = Location(frame.f_code, frame.f_lasti, started, time.perf_counter() - started)
    engine = next(version.engine for provenance in fields.values() for version, _ in provenance)
    record_operation(record, engine, location)


def _used_columns(values: list[Any]) -> dict[Hashable, Provenance]:
    """Return the columns that a call uses: of Series and arrays, and of frames those that it names, else all."""
    names = set(_names_in(values))
    sources: list[Provenance] = []
    for value in values:
        if is_frame(value):
            version = version_of_frame(value)
            sources.append(version.fields([label for label in version.columns if label in names] or None))
        else:
            sources.append(_provenance_of(value))
    merged = union(*sources)
    fields: dict[Hashable, Provenance] = {}
    for (version, label), flags in merged.items():
        fields.setdefault(label, {})[version, label] = flags
    return fields


def _provenance_of(value: Any) -> Provenance:
    module = type(value).__module__.partition(".")[0]
    if module == "polars" and hasattr(value, "to_frame"):
        from clew.capture.backends.polars.expressions import series_provenance

        return series_provenance(value)
    if module in ("pandas", "numpy") and "pandas" in sys.modules:
        get_backend("pandas")
        from clew.capture.backends.pandas.state import provenance_of

        return provenance_of(value) or {}
    return {}


def _names_in(value: Any) -> Iterator[Hashable]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _names_in([*value, *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _names_in(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        # Columns may be numbered.
        yield value


def _encoded_names(chart: Any) -> Iterator[Any]:
    """Return the data of an Altair chart, and the names in its encoding, such as `mean(price):Q`."""
    yield chart.data
    for text in _QUOTED.findall(repr(chart.encoding)):
        field = _TYPE_SUFFIX.sub("", text)
        yield [field, *re.findall(r"\((.*)\)", field), *re.findall(r"datum\.(\w+)", field)]


def install_altair() -> None:
    """Patch `Chart.encode`, where the columns of a chart are known."""
    chart = sys.modules["altair"].Chart
    _install("altair", chart, ("encode",), Consumer(CHART, lambda _: "altair.Chart", _encoded_names))


def install_matplotlib() -> None:
    """Patch the methods of axes that draw data, which pyplot calls."""
    axes = sys.modules["matplotlib.axes._axes"].Axes
    for name in _AXES_METHODS:
        _install("matplotlib", axes, (name,), Consumer(CHART, lambda _, name=name: f"matplotlib.{name}"))  # type: ignore[misc]


def install_pandas_plot() -> None:
    """Patch `df.plot`, which passes arrays to matplotlib."""
    accessor = sys.modules["pandas.plotting._core"].PlotAccessor
    consumer = Consumer(CHART, lambda _: "pandas.plot")

    def with_data(original: Any) -> Any:
        traced = _wrap(lambda _, plot, *args, **kwargs: original(plot, *args, **kwargs), consumer)

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - replaces the method
            try:
                return traced(self._parent, self, *args, **kwargs)
            except BaseException as error:
                strip_frame(error)
                raise

        return __call__

    patches = Patcher("pandas")
    _patchers.append(patches)
    patches.wrap(accessor, "__call__", with_data(accessor.__call__), accessor.__call__)


def install_seaborn() -> None:
    """Patch the plot functions."""
    module = sys.modules["seaborn"]
    functions = dict(inspect.getmembers(module, inspect.isfunction))
    for name in [name for name in functions if name.endswith(("plot", "map"))]:
        _install("seaborn", module, (name,), Consumer(CHART, lambda _, name=name: f"seaborn.{name}"))  # type: ignore[misc]


def install_plotly() -> None:
    """Patch the functions of Plotly Express that take a frame."""
    module = sys.modules["plotly.express"]
    for name in dir(module):
        function = getattr(module, name)
        if inspect.isfunction(function) and "data_frame" in inspect.signature(function).parameters:
            _install("plotly", module, (name,), Consumer(CHART, lambda _, name=name: f"plotly.{name}"))  # type: ignore[misc]


def install_marimo_table() -> None:
    """Patch `mo.ui.table`."""
    table = sys.modules["marimo._plugins.ui._impl.table"].table
    _install("marimo", table, ("__init__",), Consumer(TABLE, lambda _: "mo.ui.table"))


def install_sklearn() -> None:
    """Patch `fit` of all estimators, also of those that are defined later."""
    base = sys.modules["sklearn.base"].BaseEstimator
    consumer = Consumer(MODEL, lambda estimator: f"sklearn.{type(estimator).__name__}")

    def wrap_methods(cls: Any) -> None:
        _install("sklearn", cls, [name for name in _FIT_METHODS if inspect.isfunction(vars(cls).get(name))], consumer)

    def wrap_subclasses(cls: Any) -> None:
        for subclass in cls.__subclasses__():
            wrap_methods(subclass)
            wrap_subclasses(subclass)

    original = base.__init_subclass__.__func__

    @functools.wraps(original)
    def __init_subclass__(cls: Any, **kwargs: Any) -> None:  # noqa: N807 - replaces the method
        original(cls, **kwargs)
        wrap_methods(cls)

    base.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[arg-type]
    wrap_subclasses(base)


# What to install once a module has been imported.
CONSUMERS: dict[str, Callable[[], None]] = {
    "altair": install_altair,
    "matplotlib.axes._axes": install_matplotlib,
    "pandas.plotting._core": install_pandas_plot,
    "plotly.express": install_plotly,
    "seaborn": install_seaborn,
    "sklearn.base": install_sklearn,
    "marimo._plugins.ui._impl.table": install_marimo_table,
}
