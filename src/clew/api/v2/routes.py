"""Routes of `/api/v2` and its OpenAPI document."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew import __version__
from clew.api.middleware import TRUNCATED_FACETS, Problem
from clew.api.v2.entities import CHANGE_OPERATIONS, ENTITY_OPERATIONS
from clew.api.v2.lineage import LINEAGE_OPERATIONS, SEARCH_OPERATIONS
from clew.api.v2.notebook_runs import NOTEBOOK_RUN_OPERATIONS
from clew.api.v2.operation import (
    ApiOperation,
    OperationContext,
    parameter_schemas,
    parse_parameters,
)
from clew.query.context import QueryResources
from clew.query.entities.facets import NeedsThreadError

_REF = "#/components/schemas/{name}"
_ERROR_STATUSES = {
    "400": "A parameter is missing, unknown or invalid.",
    "404": "Not found.",
    "503": "The index does not exist yet or cannot be read.",
}


def build_openapi(operations: Sequence[ApiOperation]) -> dict[str, Any]:
    """Build the document of all operations."""
    types = [Problem, *(operation.response_type for operation in operations)]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    problem_schema, response_schemas = schemas[0], schemas[1:]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clew",
            "version": __version__,
            "description": "Lineage of jobs, datasets, columns and runs.",
        },
        "paths": {
            operation.path: {"get": _get_operation(operation, response_schema, problem_schema)}
            for operation, response_schema in zip(operations, response_schemas, strict=True)
        },
        "components": {"schemas": components},
    }


def _get_operation(
    operation: ApiOperation, response_schema: dict[str, Any], problem_schema: dict[str, Any]
) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem_schema}}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": {
            "200": {"description": operation.summary, "content": {"application/json": {"schema": response_schema}}},
            "304": {"description": "Not modified."},
            **{status: {"description": text, "content": content} for status, text in _ERROR_STATUSES.items()},
        },
    }


def _parameters(operation: ApiOperation) -> list[dict[str, Any]]:
    schemas = parameter_schemas(operation.parameters)
    return [
        {
            "name": field.encode_name,
            "in": "path" if f"{{{field.encode_name}}}" in operation.path else "query",
            "description": schemas[field.encode_name].pop("description"),
            "required": field.required,
            "schema": schemas[field.encode_name],
        }
        for field in msgspec.structs.fields(operation.parameters)
    ]


OPERATIONS: Final = (*LINEAGE_OPERATIONS, *ENTITY_OPERATIONS, *SEARCH_OPERATIONS, *CHANGE_OPERATIONS)
_OPENAPI_PATH: Final = "/api/v2/openapi.json"


def operation_routes(resources: QueryResources) -> list[Route]:
    """Create the routes."""
    all_operations = (*OPERATIONS, *NOTEBOOK_RUN_OPERATIONS)
    document = msgspec.json.encode(build_openapi(all_operations))

    async def openapi(request: Request) -> Response:
        return _response(request, document)

    # Starlette tries routes in order: inline ones first.
    operations = sorted(all_operations, key=lambda operation: not operation.is_inline)
    return [
        *(Route(operation.path, _endpoint(operation, resources)) for operation in operations),
        Route(_OPENAPI_PATH, openapi),
    ]


def _endpoint(operation: ApiOperation, resources: QueryResources) -> Callable[[Request], Awaitable[Response]]:
    encode = msgspec.json.Encoder().encode

    def respond(request: Request, *, may_block: bool = True) -> Response:
        parameters = parse_parameters(operation.parameters, {**request.query_params, **request.path_params})
        with resources.reader(may_block=may_block) as index:
            body = encode(operation.handler(OperationContext(resources, index), parameters))
            is_truncated = index.has_truncated_facets
        return _response(request, body, is_truncated=is_truncated)

    async def in_threadpool(request: Request) -> Response:
        return await run_in_threadpool(respond, request)

    async def inline(request: Request) -> Response:
        try:
            return respond(request, may_block=False)
        except NeedsThreadError:
            return await in_threadpool(request)

    return inline if operation.is_inline else in_threadpool


def _response(request: Request, body: bytes, *, is_truncated: bool = False) -> Response:
    """Return the body with an ETag, or 304 if the client has it."""
    etag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"etag": etag, "cache-control": "no-cache", **(TRUNCATED_FACETS if is_truncated else {})}
    if etag in {value.strip().removeprefix("W/") for value in request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
