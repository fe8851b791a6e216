"""Rejection of invalid events."""

from __future__ import annotations

from enum import StrEnum


class RejectionReason(StrEnum):
    """Reason why an event is rejected."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NOT_AN_OBJECT = "not_an_object"
    TOO_DEEP = "too_deep"
    NO_TIME = "no_time"
    NO_IDENTITY = "no_identity"
    UNKNOWN_SCHEMA = "unknown_schema"

    @property
    def is_permanent(self) -> bool:
        """True if no later version of clew could accept the event."""
        return self in {
            RejectionReason.NOT_JSON,
            RejectionReason.NOT_UTF8,
            RejectionReason.NOT_AN_OBJECT,
            RejectionReason.TOO_DEEP,
        }


class RejectedError(ValueError):
    """Raised for an event that goes to the dead letters."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
