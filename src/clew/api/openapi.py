"""The OpenAPI document, made from the same declarations that requests are read by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew import __version__
from clew.api.operations import Operation
from clew.api.parameters import Parameter
from clew.api.problems import Problem

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    "400": "A parameter is missing, misspelt or cannot have this value.",
    "404": "Nothing of that name is known.",
    "503": "There is no index yet, or it cannot be read now.",
}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """All questions with their parameters, answers and problems."""
    types = [Problem, *(operation.answer for operation in operations)]
    found, components = msgspec.json.schema_components(types, ref_template=_REF)
    problem, answers = found[0], found[1:]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "clew",
            "version": __version__,
            "description": "Lineage of jobs, datasets, columns and runs, answered from the index.",
        },
        "paths": {
            operation.path: {"get": _get(operation, answer, problem)}
            for operation, answer in zip(operations, answers, strict=True)
        },
        "components": {"schemas": components},
    }


def _get(operation: Operation, answer: dict[str, Any], problem: dict[str, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem}}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(one) for one in operation.parameters],
        "responses": {
            "200": {"description": operation.summary, "content": {"application/json": {"schema": answer}}},
            "304": {"description": "The caller has this answer already."},
            **{status: {"description": text, "content": content} for status, text in _PROBLEMS.items()},
        },
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "required": parameter.is_required,
        "schema": parameter.schema(),
    }
