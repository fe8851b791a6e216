"""Every error that clew raises on purpose."""

from __future__ import annotations


class ClewError(Exception):
    """What was wrong, with which value; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class UsageError(ClewError):
    """The call itself is wrong: an unknown name, a malformed value."""

    exit_code = 2


class MalformedError(UsageError):
    """A value that could never be right, whatever is known."""


class MissingExtraError(ClewError):
    """A part of clew is used that was not installed."""

    @classmethod
    def named(cls, extra: str, module: str) -> MissingExtraError:
        """Say which extra brings `module`."""
        message = f"This needs the module {module!r}, which is not installed."
        return cls(message, hint=f"Install it: pip install 'clew[{extra}]'")
