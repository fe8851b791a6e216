"""The OpenAPI document, made from the same declarations that requests are read by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from clew import __version__
from clew.api.operations import Question
from clew.api.parameters import Parameter
from clew.api.problems import Problem

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    "400": "A parameter is missing, misspelt or cannot have this value.",
    "404": "Nothing of that name is known.",
    "503": "There is no index yet, or it cannot be read now.",
}


def openapi_document(questions: Sequence[Question]) -> dict[str, Any]:
    """All questions with their parameters, answers and problems."""
    types = [Problem, *(question.answer for question in questions)]
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
            question.path: {"get": _get(question, answer, problem)}
            for question, answer in zip(questions, answers, strict=True)
        },
        "components": {"schemas": components},
    }


def _get(question: Question, answer: dict[str, Any], problem: dict[str, Any]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": problem}}
    return {
        "operationId": question.name,
        "summary": question.summary,
        "parameters": [_parameter(one) for one in question.parameters],
        "responses": {
            "200": {"description": question.summary, "content": {"application/json": {"schema": answer}}},
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
