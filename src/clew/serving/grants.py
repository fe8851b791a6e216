"""Principals and their scopes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from clew.errors import ClewError


class Scope(StrEnum):
    """Permission of a key or token; `admin` includes the others."""

    WRITE = "write"
    READ = "read"
    ADMIN = "admin"


class UnauthenticatedError(ClewError):
    """Missing or invalid credentials (HTTP 401)."""


class ForbiddenError(ClewError):
    """Insufficient permission (HTTP 403)."""


@dataclass(frozen=True)
class Principal:
    """Authenticated client: its scopes and the namespace prefixes that they are limited to (none: all)."""

    name: str
    scopes: frozenset[Scope]
    namespaces: tuple[str, ...] = ()

    @property
    def is_unrestricted(self) -> bool:
        """True if not limited to namespaces."""
        return not self.namespaces

    def require_scope(self, scope: Scope) -> None:
        """Raise ForbiddenError without the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            message = f"{self.name} lacks the scope {scope.value!r}."
            raise ForbiddenError(message, hint="Ask the administrator for a key with this scope.")

    def check_namespaces(self, names: list[str]) -> None:
        """Raise ForbiddenError for a namespace outside the allowed prefixes, or for none."""
        if self.is_unrestricted:
            return
        forbidden = [name for name in names if not name.startswith(self.namespaces)]
        if forbidden or not names:
            what = f"the namespace {forbidden[0]!r}" if forbidden else "events without a namespace"
            allowed = " or ".join(map(repr, self.namespaces))
            message = f"{self.name} may not send {what}: it is limited to namespaces that begin with {allowed}."
            raise ForbiddenError(message, hint="Ask the administrator for a key that includes the namespace.")


# Used where authentication is off.
ANONYMOUS: Final = Principal("anonymous", frozenset({Scope.ADMIN}))
