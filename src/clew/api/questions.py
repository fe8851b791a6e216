"""`/api/v2`: routes of all declared operations and the OpenAPI document."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.api.notebook_runs import NOTEBOOK_RUN_OPERATIONS
from clew.api.openapi import build_openapi
from clew.api.operations import ApiOperation, NeedsThreadError, OperationContext
from clew.api.operations.changes import CHANGE_OPERATIONS
from clew.api.operations.entities import ENTITY_OPERATIONS
from clew.api.operations.lineage import LINEAGE_OPERATIONS
from clew.api.operations.search import SEARCH_OPERATIONS
from clew.api.parameters import parse_parameters
from clew.query.holdings import QueryResources

OPERATIONS: Final = (*LINEAGE_OPERATIONS, *ENTITY_OPERATIONS, *SEARCH_OPERATIONS, *CHANGE_OPERATIONS)
_OPENAPI_PATH: Final = "/api/v2/openapi.json"


def operation_routes(resources: QueryResources) -> list[Route]:
    """Create the routes."""
    document = msgspec.json.encode(build_openapi((*OPERATIONS, *NOTEBOOK_RUN_OPERATIONS)))

    async def openapi(request: Request) -> Response:
        return _response(request, document)

    # Starlette tries routes in order: inline ones first.
    operations = sorted(OPERATIONS, key=lambda operation: not operation.is_inline)
    return [
        *(Route(operation.path, _endpoint(operation, resources)) for operation in operations),
        Route(_OPENAPI_PATH, openapi),
    ]


def _endpoint(operation: ApiOperation, resources: QueryResources) -> Callable[[Request], Awaitable[Response]]:
    encode = msgspec.json.Encoder().encode

    def respond(request: Request, *, on_event_loop: bool = False) -> Response:
        values = parse_parameters(operation.parameters, request.query_params, request.path_params)
        with resources.reader() as index:
            body = encode(operation.handler(OperationContext(resources, index, values, on_event_loop)))
        return _response(request, body)

    async def in_threadpool(request: Request) -> Response:
        return await run_in_threadpool(respond, request)

    async def inline(request: Request) -> Response:
        try:
            return respond(request, on_event_loop=True)
        except NeedsThreadError:
            return await in_threadpool(request)

    return inline if operation.is_inline else in_threadpool


def _response(request: Request, body: bytes) -> Response:
    """Return the body with an ETag, or 304 if the client has it."""
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": etag, "cache-control": "no-cache"}
    if etag in {value.strip().removeprefix("W/") for value in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
