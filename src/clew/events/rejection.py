"""Why an event could not be taken."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """The kinds of fault that keep an event out of the tables."""

    NOT_JSON = "not_json"
    NOT_UTF8 = "not_utf8"
    NOT_AN_OBJECT = "not_an_object"
    TOO_DEEP = "too_deep"
    NO_TIME = "no_time"
    NO_IDENTITY = "no_identity"
    UNKNOWN_SCHEMA = "unknown_schema"

    @property
    def is_final(self) -> bool:
        """Whether no mend of clew could make an event of it."""
        return self in {Reason.NOT_JSON, Reason.NOT_UTF8, Reason.NOT_AN_OBJECT, Reason.TOO_DEEP}


class RejectedError(ValueError):
    """An event that goes to the dead letters, with its reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
