"""What a collector answers: nothing to what is stored, a sentence to what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from clew.collector.bodies import TooLargeError
from clew.collector.encodings import MalformedBodyError, UnknownEncodingError
from clew.collector.patience import OverloadedError
from clew.collector.payloads import Taken
from clew.errors import ClewError
from clew.events.rejection import RejectedError
from clew.serving.grants import NotAllowedError, UnknownCallerError
from clew.serving.guard import CHALLENGE
from clew.serving.rates import TooOftenError

REFUSALS: Final = (ClewError, RejectedError, ClientDisconnect)
_JSON = "application/json"
_DEAD_LETTER: Final = "clew-dead-letter"
_CREATED: Final = Response(status_code=201)
_STATUSES: Final[dict[type[Exception], int]] = {
    MalformedBodyError: 400,
    ClientDisconnect: 400,
    RejectedError: 400,
    UnknownCallerError: 401,
    NotAllowedError: 403,
    TooLargeError: 413,
    UnknownEncodingError: 415,
}
# 503, not 429: the OpenLineage client drops the event on a 429 without Retry-After.
_COME_BACK: Final = 503


class FailedEvent(Struct, omit_defaults=True):
    """Why an event of a batch was not stored, and whether to send it again."""

    index: int
    reason: str
    retriable: bool


class Summary(Struct):
    """How many events of a batch were stored."""

    received: int
    successful: int
    failed: int
    retriable: int
    non_retriable: int


class BatchResult(Struct):
    """The answer to a batch, as the OpenLineage API has it."""

    status: str
    summary: Summary
    failed_events: list[FailedEvent]


class Refusal(Struct):
    """The body of an answer that is no success."""

    code: int
    message: str


def result_of(events: Sequence[Taken]) -> Response:
    """The answer to events that were stored as far as they could be; raises what is to be said of the others."""
    for event in events:
        if event.flaw is not None:
            _require_all(events)
            return _created(events)
    return _CREATED


def _created(events: Sequence[Taken]) -> Response:
    """All is stored; what could not be taken in as it is, is named."""
    reasons = {event.flaw.reason.value for event in events if isinstance(event.flaw, RejectedError)}
    return Response(status_code=201, headers={_DEAD_LETTER: ", ".join(sorted(reasons))})


def batch_result(events: Sequence[Taken]) -> Response:
    """What became of each event that was not stored."""
    failed = [
        FailedEvent(place, str(event.flaw), retriable=False)
        for place, event in enumerate(events)
        if event.entry is None
    ]
    summary = Summary(len(events), len(events) - len(failed), len(failed), 0, len(failed))
    result = BatchResult("partial_success" if failed else "success", summary, failed)
    return Response(msgspec.json.encode(result), media_type=_JSON)


def _require_all(events: Sequence[Taken]) -> None:
    """Raise the first refusal, for all: the others of the request are stored."""
    refused = [place for place, event in enumerate(events) if event.entry is None]
    if not refused:
        return
    first = events[refused[0]].flaw
    which = f"event {refused[0]} and {len(refused) - 1} more of {len(events)}: " if len(events) > 1 else ""
    if isinstance(first, NotAllowedError):
        raise NotAllowedError(f"{which}{first.message}", hint=first.hint)
    if isinstance(first, RejectedError):
        raise RejectedError(first.reason, f"{which}{first.detail}")


def refusal(fault: Exception) -> Response:
    """The answer to a request of which something is not stored; what is not final asks to be sent again."""
    status = _STATUSES.get(type(fault), _COME_BACK)
    body = msgspec.json.encode(Refusal(status, sentence(fault)))
    headers = {"retry-after": str(getattr(fault, "seconds", 1))} if status == _COME_BACK else None
    return Response(body, status, CHALLENGE if status == 401 else headers, media_type=_JSON)


def sentence(fault: Exception) -> str:
    """What is said of a fault."""
    if isinstance(fault, RejectedError):
        return f"This can never be stored: {fault}."
    return "The body was cut off." if isinstance(fault, ClientDisconnect) else str(fault)


def is_fault_of_ours(fault: Exception) -> bool:
    """Whether whoever runs the collector has to do something."""
    return type(fault) not in {*_STATUSES, OverloadedError, TooOftenError}
