"""OpenAPI document, generated from the declarations that also parse requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew import __version__
from clew.api.operations import OperationSpec
from clew.api.parameters import Parameter
from clew.api.problems import Problem

_REF = "#/components/schemas/{name}"
_ERROR_STATUSES = {
    "400": "A parameter is missing, unknown or invalid.",
    "404": "Not found.",
    "503": "The index does not exist yet or cannot be read.",
}


def build_openapi(operations: Sequence[OperationSpec]) -> dict[str, Any]:
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
    operation: OperationSpec, response_schema: dict[str, Any], problem_schema: dict[str, Any]
) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem_schema}}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": {
            "200": {"description": operation.summary, "content": {"application/json": {"schema": response_schema}}},
            "304": {"description": "Not modified."},
            **{status: {"description": text, "content": content} for status, text in _ERROR_STATUSES.items()},
        },
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.location,
        "description": parameter.description,
        "required": parameter.is_required,
        "schema": parameter.schema(),
    }
