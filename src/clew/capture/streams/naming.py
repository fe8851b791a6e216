"""Names of frames, jobs and versions in events: the same notebook run again gives the same names."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.capture.records import Record
    from clew.capture.sessions import Execution
    from clew.capture.sources import Place
    from clew.capture.versions import FrameVersion

# marimo makes names with a leading underscore private to their cell by putting the cell's id before them.
_MANGLED = re.compile(r"^_cell_[^_]+(?=_)")


class Names:
    """Gives each record of one execution its operation's name, and each version its variable and number.

    `counts` is how many versions each variable has had since the cell that defines it last started, `bound` which
    variables hold which frames when the cell ends.
    """

    def __init__(self, execution: Execution, bound: dict[str, int], counts: dict[str, int]) -> None:
        self._execution = execution
        self._counts = counts
        self._operations: Counter[str] = Counter()
        self._bound: dict[int, str] = {}
        for name, frame in bound.items():
            self._bound.setdefault(frame, name)

    def operation(self, record: Record) -> str:
        """The operation's name within its cell; a second one of that name gets a number."""
        name = operation_name(record)
        self._operations[name] += 1
        count = self._operations[name]
        return name if count == 1 else f"{name}.{count}"

    def give(self, record: Record, operation: str, place: Place) -> None:
        """Name what a record made: by the frame it changed, its target, the variable that holds it or its operation."""
        version = record.output
        if version is None or version.dataset is not None:
            return
        changed = next((parent for parent in record.parents if parent.uid == version.uid), None)
        if changed is not None and changed.name is not None:
            version.name = changed.name
        else:
            version.name = self._variable(version, place) or f"{self._execution.cell.label}/{operation}"
        self._number(version)

    def know(self, version: FrameVersion) -> None:
        """Name a version that came from elsewhere."""
        if version.number or version.dataset is not None:
            return
        if version.repeats is not None:
            version.name, version.number = version.repeats.name, version.repeats.number
        if not version.number:
            version.name = version.name or self._bound.get(version.uid) or f"{self._execution.cell.label}/dataframe"
            self._number(version)

    def _variable(self, version: FrameVersion, place: Place) -> str | None:
        if place.target is not None and place.is_at_top:
            return self._scoped(place.target)
        bound = self._bound.get(version.uid)
        return self._scoped(bound) if bound is not None else None

    def _scoped(self, name: str) -> str:
        plain = _MANGLED.sub("", name)
        return f"{self._execution.cell.label}/{plain}" if plain.startswith("_") else plain

    def _number(self, version: FrameVersion) -> None:
        name = version.name or ""
        self._counts[name] = version.number = self._counts.get(name, 0) + 1


def operation_name(record: Record) -> str:
    """`pandas_<function>` for functions of the module, `dataframe_<method>` for methods."""
    method = record.method.strip("_").replace(".", "_").replace("__", "_")
    return f"pandas_{method}" if record.is_module_function else f"dataframe_{method}"


def starts_anew(execution: Execution, counts: dict[str, int]) -> None:
    """Count the versions of the variables that this cell defines from the beginning."""
    prefix = f"{execution.cell.label}/"
    for name in list(counts):
        if name in execution.cell.defines or name.startswith(prefix):
            del counts[name]
