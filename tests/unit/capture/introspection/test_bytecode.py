"""Tests of what the bytecode tells about calls."""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

import pytest

from clew.capture.introspection.bytecode import executes_once, is_result_kept, operand_spans


def call_sites(code: CodeType) -> list[int]:
    return [step.offset for step in dis.get_instructions(code) if step.opname == "CALL"]


def test_a_long_code_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"x{number} = f(y)\nprint(f(y))\nf(y, x{number})" for number in range(100)]
    code = compile("\n".join(lines), "<cell>", "exec")
    sites = call_sites(code)
    decoded = []
    original: Any = dis.get_instructions

    def decode(code: CodeType) -> Any:
        decoded.append(code)
        return original(code)

    monkeypatch.setattr(dis, "get_instructions", decode)
    kept = [is_result_kept(code, site) for site in sites]
    assert len(sites) == 400
    assert all(kept)
    assert not any(executes_once(code, site) for site in sites)
    assert all(operand_spans(code, site) for site in sites)
    assert decoded == [code]
