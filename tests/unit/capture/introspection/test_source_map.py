"""Tests of the source map."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from clew.capture.introspection.source_map import (
    UNKNOWN_LOCATION,
    SourceLocation,
    SourceMap,
    first_line_of,
    position_of,
)


def locate_mark(source: str) -> SourceLocation:
    """Return the location of the `mark()` call in `source`."""
    locations: list[SourceLocation] = []
    sources = SourceMap()
    code = compile(source, "<cell>", "exec")
    sources.add_cell(source, code.co_filename, first_line_of(code))

    class Marked:
        def __getitem__(self, key: object) -> Marked:
            return record(self)

        def __setitem__(self, key: object, value: object) -> None:
            record(self)

        def mark(self, *_: object, **__: object) -> Marked:
            return record(self)

    def record(marked: Marked) -> Marked:
        frame = sys._getframe(2)
        locations.append(sources.locate(position_of(frame.f_code, frame.f_lasti)))
        return marked

    exec(code, {"m": Marked(), "f": lambda value: value})
    return locations[-1]


@pytest.mark.parametrize(
    ("source", "text", "lines", "target"),
    [
        ("out = m.mark(1)", "m.mark(1)", (1, 1), "out"),
        ("m.mark()", "m.mark()", (1, 1), None),
        ("\n\nout = m['a']", "m['a']", (3, 3), "out"),
        ("m['a'] = 1 + 2", "m['a'] = 1 + 2", (1, 1), None),
        ("out = m.mark(\n    1,\n).mark(2)", "m.mark(\n    1,\n).mark(2)", (1, 3), "out"),
        ("out = f(m.mark())", "m.mark()", (1, 1), None),
        ("one, two = 1, m.mark()", "m.mark()", (1, 1), "two"),
        ("out: object = m.mark()", "m.mark()", (1, 1), "out"),
        ("if (out := m.mark()):\n    pass", "m.mark()", (1, 1), "out"),
        ("def g():\n    t = m.mark()\ng()", "m.mark()", (2, 2), "t"),
        ("naïve = 'é'; out = m.mark('ü')", "m.mark('ü')", (1, 1), "out"),
        ("for x in [1]:\n    out = m.mark(x)", "m.mark(x)", (2, 2), "out"),
    ],
)
def test_text_lines_and_target(source: str, text: str, lines: tuple[int, int], target: str | None) -> None:
    location = locate_mark(source)
    assert (location.text, (location.line, location.end_line), location.target) == (text, lines, target)


def test_variable_of_a_function_is_not_top_level() -> None:
    assert not locate_mark("def g():\n    t = m.mark()\ng()").is_top_level
    assert locate_mark("if True:\n    t = m.mark()").is_top_level


@pytest.mark.parametrize(
    ("source", "parameters"),
    [
        ("m.mark('id', how='left', on=['a', 'b'])", {"args": ["id"], "how": "left", "on": ["a", "b"]}),
        ("m.mark(f, n=-1)", {"args": ["f"], "n": -1}),
        ("m['a']", {"key": "'a'"}),
    ],
)
def test_parameters_are_names_and_literals(source: str, parameters: dict[str, Any]) -> None:
    assert locate_mark(source).parameters == parameters


def test_lines_count_from_the_start_of_the_cell() -> None:
    cell = "x = 1\nout = mark()"
    sources = SourceMap()
    code = compile("\n" * 40 + cell, "book.py", "exec")
    sources.add_cell(cell, code.co_filename, first_line_of(code))
    offsets = [start for start, _, line in code.co_lines() if line == 42]
    locations = [
        sources.locate(position_of(code, instruction)) for instruction in range(offsets[0], len(code.co_code), 2)
    ]
    assert ("mark()", 2, "out") in {(location.text, location.line, location.target) for location in locations}


def test_edited_cell_replaces_the_old_one() -> None:
    sources = SourceMap()
    for cell in ("out = old()", "# said\nout = new()", "out = old()"):
        code = compile(cell, "cell.py", "exec")
        sources.add_cell(cell, code.co_filename, first_line_of(code))
        texts = {sources.locate(position_of(code, offset)).text for offset in range(0, len(code.co_code), 2)}
        assert cell.removeprefix("# said\n").removeprefix("out = ") in texts


def test_unknown_code_has_no_location() -> None:
    assert SourceMap().locate(None) is UNKNOWN_LOCATION
