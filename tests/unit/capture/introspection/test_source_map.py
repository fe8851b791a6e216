"""Tests of the source map."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, Self

import pytest

from clew.capture.introspection.source_map import (
    UNKNOWN_LOCATION,
    SourceLocation,
    SourceMap,
    position_of,
    start_of,
)


def locate_mark(source: str) -> SourceLocation:
    """Return the location of the `mark()` call in `source`."""
    locations: list[SourceLocation] = []
    sources = SourceMap()
    code = compile(source, "<cell>", "exec")
    sources.add_cell(source, code.co_filename, start_of(code))

    class Marked:
        def __getitem__(self, key: object) -> Marked:
            return record(self)

        def __setitem__(self, key: object, value: object) -> None:
            record(self)

        def __iter__(self) -> Iterator[object]:
            record(self)
            return iter(())

        def __iadd__(self, other: object) -> Self:
            record(self)
            return self

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
        ("for key, part in m.mark(1):\n    f(part)", "m.mark(1)", (1, 1), None),
        ("for part in (\n    m['a']\n):\n    f(part)\nelse:\n    pass", "m['a']", (2, 2), None),
        ("m += 1", "m += 1", (1, 1), "m"),
        ("m += m.mark()", "m += m.mark()", (1, 1), "m"),
        ("out = f(part for part in m.mark(1))", "m.mark(1)", (1, 1), None),
        ("out = [f(part) for part in m.mark(1)]", "m.mark(1)", (1, 1), None),
        ("out = f({key: part for key, part in m['a']})", "m['a']", (1, 1), None),
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
    sources.add_cell(cell, code.co_filename, start_of(code))
    offsets = [start for start, _, line in code.co_lines() if line == 42]
    locations = [
        sources.locate(position_of(code, instruction)) for instruction in range(offsets[0], len(code.co_code), 2)
    ]
    assert ("mark()", 2, "out") in {(location.text, location.line, location.target) for location in locations}


@pytest.mark.parametrize("cell", ["x = 1\nout = mark()", "@mark()\ndef f():\n    pass"])
def test_indented_cell_is_located_by_line_and_column(cell: str) -> None:
    """marimo compiles the setup cell with its position in the file."""
    line, column = start_of(compile(cell, "<cell>", "exec")) or (0, 0)
    code = compile("if True:\n" + textwrap.indent(cell, "    "), "book.py", "exec")
    sources = SourceMap()
    sources.add_cell(cell, "book.py", (line + 1, column + 4))
    assert "mark()" in texts_of(sources, code)


def test_edited_cell_replaces_the_old_one() -> None:
    sources = SourceMap()
    for cell in ("out = old()", "# said\nout = new()", "out = old()"):
        code = compile(cell, "cell.py", "exec")
        sources.add_cell(cell, code.co_filename, start_of(code))
        texts = {sources.locate(position_of(code, offset)).text for offset in range(0, len(code.co_code), 2)}
        assert cell.removeprefix("# said\n").removeprefix("out = ") in texts


def test_the_text_of_the_file_does_not_hide_cells_that_are_registered_later(tmp_path: Path) -> None:
    """Code outside of cells, such as an imported function, is located in the file."""
    cells = ["first()", "second()"]
    file = tmp_path / "book.py"
    file.write_text(f"def helper():\n    outside()\n\n\n{cells[0]}\n\n\n\n{cells[1]}\n")
    sources = SourceMap()
    outside = compile(file.read_text(), str(file), "exec").co_consts[0]
    assert texts_of(sources, outside) == {"outside()"}
    for cell, first_line in zip(cells, (5, 9), strict=True):
        code = compile("\n" * (first_line - 1) + cell, str(file), "exec")
        sources.add_cell(cell, str(file), start_of(code))
        locations = [sources.locate(position_of(code, offset)) for offset in range(0, len(code.co_code), 2)]
        assert (cell, 1) in {(location.text, location.line) for location in locations}


def texts_of(sources: SourceMap, code: CodeType) -> set[str]:
    """Return the texts of all operations of a code object."""
    texts = {sources.locate(position_of(code, offset)).text for offset in range(0, len(code.co_code), 2)}
    return texts - {""}


@pytest.mark.parametrize(("source", "has_any"), [("", False), ("# comment", False), ("pass", True), ("x = 1", True)])
def test_code_without_statements_has_no_start(source: str, has_any: bool) -> None:
    assert (start_of(compile(source, "<cell>", "exec")) is not None) is has_any


def test_unknown_code_has_no_location() -> None:
    assert SourceMap().locate(None) is UNKNOWN_LOCATION
