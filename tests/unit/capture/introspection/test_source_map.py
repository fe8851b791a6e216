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


def place_of(source: str) -> SourceLocation:
    """Where `mark()` is called in `source`."""
    found: list[SourceLocation] = []
    sources = SourceMap()
    code = compile(source, "<cell>", "exec")
    sources.add_cell(source, code.co_filename, first_line_of(code))

    class Marked:
        def __getitem__(self, key: object) -> Marked:
            return note(self)

        def __setitem__(self, key: object, value: object) -> None:
            note(self)

        def mark(self, *_: object, **__: object) -> Marked:
            return note(self)

    def note(marked: Marked) -> Marked:
        frame = sys._getframe(2)
        found.append(sources.locate(position_of(frame.f_code, frame.f_lasti)))
        return marked

    exec(code, {"m": Marked(), "f": lambda value: value})
    return found[-1]


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
    place = place_of(source)
    assert (place.text, (place.line, place.end_line), place.target) == (text, lines, target)


def test_a_functions_variable_is_not_the_notebooks() -> None:
    assert not place_of("def g():\n    t = m.mark()\ng()").is_top_level
    assert place_of("if True:\n    t = m.mark()").is_top_level


@pytest.mark.parametrize(
    ("source", "parameters"),
    [
        ("m.mark('id', how='left', on=['a', 'b'])", {"args": ["id"], "how": "left", "on": ["a", "b"]}),
        ("m.mark(f, n=-1)", {"args": ["f"], "n": -1}),
        ("m['a']", {"key": "'a'"}),
    ],
)
def test_parameters_are_names_and_literals(source: str, parameters: dict[str, Any]) -> None:
    assert place_of(source).parameters == parameters


def test_code_at_its_place_in_a_file_counts_from_its_cell() -> None:
    cell = "x = 1\nout = mark()"
    sources = SourceMap()
    code = compile("\n" * 40 + cell, "book.py", "exec")
    sources.add_cell(cell, code.co_filename, first_line_of(code))
    offsets = [start for start, _, line in code.co_lines() if line == 42]
    found = [sources.locate(position_of(code, instruction)) for instruction in range(offsets[0], len(code.co_code), 2)]
    assert ("mark()", 2, "out") in {(place.text, place.line, place.target) for place in found}


def test_a_cell_that_was_edited_takes_the_place_of_the_old_one() -> None:
    sources = SourceMap()
    for cell in ("out = old()", "# said\nout = new()", "out = old()"):
        code = compile(cell, "cell.py", "exec")
        sources.add_cell(cell, code.co_filename, first_line_of(code))
        found = {sources.locate(position_of(code, place)).text for place in range(0, len(code.co_code), 2)}
        assert cell.removeprefix("# said\n").removeprefix("out = ") in found


def test_unknown_code_is_nowhere() -> None:
    assert SourceMap().locate(None) is UNKNOWN_LOCATION
