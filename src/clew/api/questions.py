"""`/api/v2`: every declared question as a route, and the document that tells of them all."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.notebook_runs import NOTEBOOK_QUESTIONS
from clew.api.openapi import openapi_document
from clew.api.operations import Asked, Operation, TakesLongerError
from clew.api.operations.changes import CHANGE_OPERATIONS
from clew.api.operations.entities import ENTITY_OPERATIONS
from clew.api.operations.lineage import LINEAGE_OPERATIONS
from clew.api.operations.search import SEARCH_OPERATIONS
from clew.api.parameters import read_parameters
from clew.query.holdings import Holdings

OPERATIONS: Final = (*LINEAGE_OPERATIONS, *ENTITY_OPERATIONS, *SEARCH_OPERATIONS, *CHANGE_OPERATIONS)
_PATH: Final = "/api/v2/openapi.json"


def question_routes(holdings: Holdings) -> list[Route]:
    """The routes, which answer from what a process keeps."""
    document = msgspec.json.encode(openapi_document((*OPERATIONS, *NOTEBOOK_QUESTIONS)))

    async def openapi(request: Request) -> Response:
        return _response(request, document)

    # Routes are tried one after the other: what is quick is not to wait for the others.
    operations = sorted(OPERATIONS, key=lambda operation: not operation.is_quick)
    return [*(Route(one.path, _endpoint(one, holdings)) for one in operations), Route(_PATH, openapi)]


def _endpoint(operation: Operation, holdings: Holdings) -> Callable[[Request], Awaitable[Response]]:
    encode = msgspec.json.Encoder().encode

    def answered(request: Request, *, is_hurried: bool = False) -> Response:
        values = read_parameters(operation.parameters, request.query_params, request.path_params)
        with holdings.reader() as index:
            body = encode(operation.ask(Asked(holdings, index, values, is_hurried)))
        return _response(request, body)

    async def aside(request: Request) -> Response:
        return await run_in_threadpool(answered, request)

    async def at_once(request: Request) -> Response:
        try:
            return answered(request, is_hurried=True)
        except TakesLongerError:
            return await aside(request)

    return at_once if operation.is_quick else aside


def _response(request: Request, body: bytes) -> Response:
    """An answer with a tag that names its content: whoever has it already is told so, and not sent it again."""
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
