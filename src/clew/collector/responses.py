"""HTTP responses of the collector, and throttled logging of rejected requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from clew.collector.group_commit import OverloadedError
from clew.collector.ingest import IngestResult
from clew.collector.request_body import BodyTooLargeError, MalformedBodyError, UnsupportedEncodingError
from clew.errors import ClewError
from clew.events.decoding import RejectedError
from clew.server.auth import CHALLENGE, ForbiddenError, RateLimitedError, UnauthenticatedError
from clew.server.fast_path import RequestInfo

_EXPECTED_ERRORS: Final = (ClewError, RejectedError, ClientDisconnect)
_JSON = "application/json"
_PROBLEM_JSON = "application/problem+json"
_DEAD_LETTER_HEADER: Final = "clew-dead-letter"
_CREATED: Final = Response(status_code=201)


class FailedEvent(Struct, omit_defaults=True):
    """Event of a batch that was not stored; `retriable` if it can be sent again."""

    index: int
    reason: str
    retriable: bool


class BatchSummary(Struct):
    """Event counts of a batch."""

    received: int
    successful: int
    failed: int
    retriable: int
    non_retriable: int


class BatchResult(Struct):
    """Response to a batch, as defined by the OpenLineage API."""

    status: str
    summary: BatchSummary
    failed_events: list[FailedEvent]


class ProblemDetails(Struct, omit_defaults=True):
    """JSON body of an error response: problem details of RFC 9457, with `code` and `message` as Marquez has them.

    `reason` is why an event is rejected; `failed_events` lists all events of the request that failed.
    """

    title: str
    status: int
    detail: str
    code: int
    message: str
    reason: str | None = None
    failed_events: list[FailedEvent] = []


class InvalidEventsError(ClewError):
    """Events of a request that were stored as dead letters (HTTP 422)."""

    def __init__(self, first: RejectedError, failed_events: list[FailedEvent], received: int) -> None:
        super().__init__(rejection_message(_summarize(first, failed_events, received)))
        self.reason = first.reason
        self.failed_events = failed_events


def ingest_response(results: Sequence[IngestResult], *, accepts_invalid: bool = False) -> Response:
    """Return 201 if all events are valid and stored; otherwise raise the first error.

    With `accepts_invalid`, events that are stored as dead letters get 201, too.
    """
    for result in results:
        if result.error is not None:
            _raise_first_error(results)
            if not accepts_invalid:
                _raise_dead_letters(results)
            return _dead_letter_response(results)
    return _CREATED


def _dead_letter_response(results: Sequence[IngestResult]) -> Response:
    """Return 201 with the reasons for the events that were stored as dead letters."""
    reasons = {result.error.reason.value for result in results if isinstance(result.error, RejectedError)}
    return Response(status_code=201, headers={_DEAD_LETTER_HEADER: ", ".join(sorted(reasons))})


def batch_response(results: Sequence[IngestResult], *, accepts_invalid: bool = False) -> Response:
    """Return the counts of a batch and each event that is invalid or was not stored."""
    failed = _failed_events(results, accepts_invalid=accepts_invalid)
    summary = BatchSummary(len(results), len(results) - len(failed), len(failed), 0, len(failed))
    body = BatchResult("partial_success" if failed else "success", summary, failed)
    return Response(msgspec.json.encode(body), media_type=_JSON)


def _failed_events(results: Sequence[IngestResult], *, accepts_invalid: bool) -> list[FailedEvent]:
    return [
        FailedEvent(index, str(result.error), retriable=False)
        for index, result in enumerate(results)
        if result.entry is None or (result.error is not None and not accepts_invalid)
    ]


def _raise_first_error(results: Sequence[IngestResult]) -> None:
    """Raise the first error on behalf of all events that were not stored."""
    failed = _failed_events(results, accepts_invalid=True)
    if not failed:
        return
    first = results[failed[0].index].error
    if isinstance(first, ForbiddenError):
        raise ForbiddenError(f"{_prefix(failed, len(results))}{first.message}", hint=first.hint)
    if isinstance(first, RejectedError):
        raise _summarize(first, failed, len(results))


def _raise_dead_letters(results: Sequence[IngestResult]) -> None:
    failed = _failed_events(results, accepts_invalid=False)
    first = results[failed[0].index].error
    if isinstance(first, RejectedError):
        raise InvalidEventsError(first, failed if len(results) > 1 else [], len(results))


def _summarize(first: RejectedError, failed: Sequence[FailedEvent], received: int) -> RejectedError:
    return RejectedError(first.reason, f"{_prefix(failed, received)}{first.detail}")


def _prefix(failed: Sequence[FailedEvent], received: int) -> str:
    return f"event {failed[0].index} and {len(failed) - 1} more of {received}: " if received > 1 else ""


def error_response(error: Exception) -> Response:
    """Return the error response; 503 with Retry-After unless the error is permanent."""
    status, message = _STATUS_CODES.get(type(error), _UNAVAILABLE), rejection_message(error)
    problem = ProblemDetails(HTTPStatus(status).phrase, status, message, status, message)
    if isinstance(error, InvalidEventsError | RejectedError):
        problem.reason = error.reason
        problem.failed_events = getattr(error, "failed_events", [])
    content = msgspec.json.encode(problem)
    headers = {"retry-after": str(getattr(error, "retry_after", 1))} if status == _UNAVAILABLE else None
    return Response(content, status, CHALLENGE if status == 401 else headers, media_type=_PROBLEM_JSON)


def rejection_message(error: Exception) -> str:
    """Return the message of an error response."""
    if isinstance(error, RejectedError):
        return f"Invalid event: {error}."
    return "The request body is incomplete." if isinstance(error, ClientDisconnect) else str(error)


_STATUS_CODES: Final[dict[type[Exception], int]] = {
    MalformedBodyError: 400,
    ClientDisconnect: 400,
    RejectedError: 400,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    BodyTooLargeError: 413,
    UnsupportedEncodingError: 415,
    InvalidEventsError: 422,
}
# 503, not 429: the OpenLineage client drops the event on a 429 without Retry-After.
_UNAVAILABLE: Final = 503


def is_server_error(error: Exception) -> bool:
    """Return whether the operator of the collector must act."""
    return type(error) not in {*_STATUS_CODES, OverloadedError, RateLimitedError}


_LOG = logging.getLogger("clew.collector")
_MIN_SECONDS_BETWEEN_LINES = 1.0


class ThrottledErrorLog:
    """Logs one error per second, path and status, with the number of suppressed ones."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], tuple[float, int]] = {}

    def record(self, path: str, request: RequestInfo, status: int, error: Exception) -> None:
        """Log an error, unless one with the same path and status was just logged."""
        kind, now = (path, status), time.monotonic()
        last, suppressed = self._last.get(kind, (-_MIN_SECONDS_BETWEEN_LINES, 0))
        if now - last < _MIN_SECONDS_BETWEEN_LINES:
            self._last[kind] = (last, suppressed + 1)
            return
        self._last[kind] = (now, 0)
        fields = {
            "path": path,
            "status": status,
            "address": request.client.host if request.client else None,
            "user_agent": request.headers.get("user-agent"),
            "suppressed": suppressed,
        }
        level = logging.ERROR if is_server_error(error) else logging.WARNING
        trace = None if isinstance(error, _EXPECTED_ERRORS) else error
        _LOG.log(level, "request rejected: %s", rejection_message(error), extra={"fields": fields}, exc_info=trace)
