"""Names of frames, jobs and versions in events; stable across runs of the same notebook."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.capture.records import OperationRecord
    from clew.capture.sessions import Execution
    from clew.capture.sources import SourceLocation
    from clew.capture.versions import FrameVersion

# marimo prefixes names with a leading underscore with the cell's id to make them private to their cell.
_MANGLED = re.compile(r"^_cell_[^_]+(?=_)")


class DatasetNamer:
    """Names the operations of one execution and their frame versions.

    `counts` is the number of versions of each variable since its defining cell last started, `bound` maps variables to
    the frames they hold when the cell ends.
    """

    def __init__(self, execution: Execution, bound: dict[str, int], counts: dict[str, int]) -> None:
        self._execution = execution
        self._counts = counts
        self._operations: Counter[str] = Counter()
        self._bound: dict[int, str] = {}
        for name, frame in bound.items():
            self._bound.setdefault(frame, name)

    def operation(self, record: OperationRecord) -> str:
        """Return the operation's name within its cell; repeated names get a number."""
        name = operation_name(record)
        self._operations[name] += 1
        count = self._operations[name]
        return name if count == 1 else f"{name}.{count}"

    def assign_name(self, record: OperationRecord, operation: str, location: SourceLocation) -> None:
        """Name the output: by the mutated frame, the assigned variable, the variable that holds it or the operation."""
        version = record.output
        if version is None or version.dataset is not None:
            return
        changed = next((parent for parent in record.parents if parent.uid == version.uid), None)
        if changed is not None and changed.name is not None:
            version.name = changed.name
        else:
            version.name = self._variable_name(version, location) or f"{self._execution.cell.label}/{operation}"
        self._assign_number(version)

    def name_input(self, version: FrameVersion) -> None:
        """Name an input version that has no name yet."""
        if version.number or version.dataset is not None:
            return
        if version.first_iteration is not None:
            version.name, version.number = version.first_iteration.name, version.first_iteration.number
        if not version.number:
            version.name = version.name or self._bound.get(version.uid) or f"{self._execution.cell.label}/dataframe"
            self._assign_number(version)

    def _variable_name(self, version: FrameVersion, location: SourceLocation) -> str | None:
        if location.target is not None and location.is_top_level:
            return self._scoped(location.target)
        bound = self._bound.get(version.uid)
        return self._scoped(bound) if bound is not None else None

    def _scoped(self, name: str) -> str:
        plain = _MANGLED.sub("", name)
        return f"{self._execution.cell.label}/{plain}" if plain.startswith("_") else plain

    def _assign_number(self, version: FrameVersion) -> None:
        name = version.name or ""
        self._counts[name] = version.number = self._counts.get(name, 0) + 1


def operation_name(record: OperationRecord) -> str:
    """Return `pandas_<function>` for functions of the module, `dataframe_<method>` for methods."""
    method = record.method.strip("_").replace(".", "_").replace("__", "_")
    return f"pandas_{method}" if record.is_module_function else f"dataframe_{method}"


def reset_counts(execution: Execution, counts: dict[str, int]) -> None:
    """Restart version counting for the variables that the cell defines."""
    prefix = f"{execution.cell.label}/"
    for name in list(counts):
        if name in execution.cell.defines or name.startswith(prefix):
            del counts[name]
