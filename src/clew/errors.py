"""Exceptions of clew."""

from __future__ import annotations


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
