"""Exceptions of clew."""

from __future__ import annotations

import re
from traceback import walk_tb

# Of pyarrow and deltalake, for files that cannot be read; not by class, so that nothing heavy is imported.
_QUERY_ERROR = re.compile("Parquet (argument )?error|Object Store error|ParquetError")
_DAMAGE_ERRORS = frozenset({"DeltaError", "DeltaProtocolError", "TableNotFoundError"})


def is_damaged_file_error(error: BaseException) -> bool:
    """Return whether a data file or Delta log could not be read. Other errors of these libraries are defects."""
    module, _, _ = type(error).__module__.partition(".")
    if module in {"deltalake", "_internal"}:
        return type(error).__name__ in _DAMAGE_ERRORS
    if module == "pyarrow":
        return type(error).__name__ == "ArrowInvalid" and "parquet" in str(error).lower()
    if type(error) is Exception:
        # Raised by QueryBuilder of deltalake, in Rust.
        return _QUERY_ERROR.search(str(error)) is not None
    if not isinstance(error, OSError):
        return False
    # The file is missing, or its compressed pages are damaged.
    frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return any(name.startswith("pyarrow") for name in frames) and (error.errno is None or "/part-" in str(error))


class ClewError(Exception):
    """Base class: `message` names the problem and the value, `hint` the next step."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class UsageError(ClewError):
    """Invalid call: an unknown name or a malformed value."""

    exit_code = 2


class MalformedError(UsageError):
    """Malformed value, invalid regardless of the data."""


class MissingExtraError(ClewError):
    """Optional dependency that is not installed."""

    @classmethod
    def for_module(cls, extra: str, module: str) -> MissingExtraError:
        """Name the extra that provides `module`."""
        message = f"This needs the module {module!r}, which is not installed."
        return cls(message, hint=f"Install it: pip install 'clew[{extra}]'")
