"""What a caller may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clew.errors import ClewError


class Scope(StrEnum):
    """What one may be let in for; `admin` is all of it."""

    WRITE = "write"
    READ = "read"
    ADMIN = "admin"


class UnknownCallerError(ClewError):
    """Nobody knows who is calling."""


class NotAllowedError(ClewError):
    """The caller is known, and may not do this."""


@dataclass(frozen=True)
class Grant:
    """The scopes of a caller, and the beginnings of the namespaces that they hold for: all, if there are none."""

    caller: str
    scopes: frozenset[Scope]
    namespaces: tuple[str, ...] = ()

    @property
    def is_everywhere(self) -> bool:
        """Whether it holds for all namespaces."""
        return not self.namespaces

    def require(self, scope: Scope) -> None:
        """Refuse who lacks a scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            message = f"{self.caller} may not do this: it needs the scope {scope.value}."
            raise NotAllowedError(message, hint="Ask whoever runs clew for a key that has it.")

    def require_namespaces(self, named: list[str]) -> None:
        """Refuse who names a namespace out of reach, or none."""
        if self.is_everywhere:
            return
        beyond = [name for name in named if not name.startswith(self.namespaces)]
        if beyond or not named:
            what = f"the namespace {beyond[0]!r}" if beyond else "events that name no namespace"
            reach = " or ".join(map(repr, self.namespaces))
            message = f"{self.caller} may not send {what}: its namespaces begin with {reach}."
            raise NotAllowedError(message, hint="Ask whoever runs clew for a key that reaches it.")


# Where no keys are asked for.
ANYONE: Final = Grant("anyone", frozenset({Scope.ADMIN}))
