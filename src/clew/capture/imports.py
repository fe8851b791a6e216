"""Acting when a module is imported, without importing it ourselves."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from clew.capture.losses import count_loss

Action = Callable[[], None]


class _Loader(importlib.abc.Loader):
    """Loads as the real loader does, then acts."""

    def __init__(self, real: Any, action: Action) -> None:
        self._real = real
        self._action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._real.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # Whoever looks at the module later must find the real loader.
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        module.__loader__ = self._real
        self._real.exec_module(module)
        _act(module.__name__, self._action)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: it asks the finders after it and puts `_Loader` around what they found."""

    def __init__(self) -> None:
        self.actions: dict[str, Action] = {}
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        # The action stays registered: marimo asks for the spec of pandas without ever importing it.
        if fullname not in self.actions or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname) if path is None else _spec_along(fullname, path)
        finally:
            self._asking.discard(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.actions[fullname])
        return spec


def _spec_along(fullname: str, path: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            continue
        spec = finder.find_spec(fullname, path)
        if spec is not None:
            return spec
    return None


_finder = _Finder()


def when_imported(name: str, action: Action) -> None:
    """Run `action` once `name` has been imported: now, if it already is."""
    if name in sys.modules:
        _act(name, action)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.actions[name] = action


def _act(name: str, action: Action) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001 - an import of the user must not fail because of us
        count_loss(f"import {name}", error)
