"""Random pipelines, and an oracle for their lineage: perturb one source column and see what changes.

- Whole pipeline: an output column that changes must have an edge from the perturbed column.
- Every step, and the whole pipeline: an edge without a flag must be true, so some perturbation of its source changes
  its target.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

import clew
from clew.capture.introspection.user_code import tracing_suppressed

ROWS = 24
MAX_STEPS = 6
STEP_ERRORS = (KeyError, ValueError, TypeError, IndexError, AttributeError, SyntaxError)
_MIN_ROWS = 6
# Perturbations of a source until one of them changes the target of an edge.
_ATTEMPTS = 42

Frames: TypeAlias = "dict[str, Any]"
# Name of a frame, and its column.
Source: TypeAlias = "tuple[str, str]"


@dataclass(frozen=True)
class Library:
    """A repertoire of steps of one library, and the conversion of its frames."""

    names: dict[str, Any]
    # The first line of a pipeline.
    start: str
    # Lines of code that assign to `out`, with the placeholders n, m, k, i and v.
    steps: tuple[str, ...]
    from_pandas: Callable[[pd.DataFrame], Any] = lambda frame: frame
    to_pandas: Callable[[Any], pd.DataFrame] = lambda frame: frame
    # Errors of a step that does not fit the frame or its data.
    errors: tuple[type[BaseException], ...] = STEP_ERRORS
    # Whether the order of rows is defined.
    is_ordered: bool = True

    def run(self, code: CodeType, frames: Frames) -> Any:
        """Return the output of a pipeline over pandas frames."""
        namespace = {**self.names, **{name: self.from_pandas(frame) for name, frame in frames.items()}}
        exec(code, namespace)
        return namespace["out"]

    def run_untraced(self, code: CodeType, frames: Frames) -> pd.DataFrame | None:
        """Return the output of a pipeline as a pandas frame, or None if it does not fit the frames."""
        with tracing_suppressed():
            try:
                return self.to_pandas(self.run(code, frames))
            except self.errors:
                return None


@dataclass
class Step:
    """A line of a pipeline, the frames before it and its output."""

    line: str
    frames: Frames
    output: pd.DataFrame

    @property
    def code(self) -> CodeType:
        """The compiled line."""
        return _compile(self.line)


@dataclass
class Sources:
    """Sources without a flag, of each column and of the whole output; a source is direct or not."""

    columns: dict[str, set[Source]] = field(default_factory=dict)
    rows: set[Source] = field(default_factory=set)
    # With the flagged ones.
    all_columns: dict[str, set[Source]] = field(default_factory=dict)
    all_rows: set[Source] = field(default_factory=set)


class FalseEdge(NamedTuple):
    """An edge without a flag whose target does not change with its source; `column` is None for the whole output."""

    column: str | None
    source: Source


@cache
def source_frames() -> Frames:
    """Return the two source frames."""
    rng = np.random.default_rng(3)
    a = pd.DataFrame({"k": rng.integers(0, 6, ROWS), "x": rng.normal(size=ROWS), "y": rng.normal(size=ROWS)})
    a["g"] = rng.choice(["p", "q", "r"], ROWS)
    a.loc[::7, "y"] = np.nan
    b = pd.DataFrame({"k": rng.integers(0, 8, 10), "w": rng.normal(size=10) * 2, "u": rng.normal(size=10)})
    return {"a": a, "b": b}


def generate_pipeline(library: Library, seed: int) -> list[Step]:
    """Return the steps of a random pipeline that runs without errors."""
    rng = random.Random(seed)
    frames = source_frames()
    steps = []
    output = library.run_untraced(_compile(library.start), frames)
    assert output is not None, library.start
    steps.append(Step(library.start, frames, output))
    for number in range(rng.randint(2, MAX_STEPS)):
        line = _choose_step(library, rng, steps[-1].output, number)
        before = {**source_frames(), "out": steps[-1].output.copy()}
        after = library.run_untraced(_compile(line), before) if line and _compiles(line) else None
        if after is not None and len(after) > 0 and len(after.columns) and after.columns.is_unique:
            steps.append(Step(line, {**source_frames(), "out": steps[-1].output}, after))
            if len(after) < _MIN_ROWS:
                # In one row, `first(x order by y)` does not depend on y.
                break
    return steps


def _compiles(line: str) -> bool:
    try:
        _compile(line)
    except SyntaxError:
        return False
    return True


def _compile(text: str) -> CodeType:
    return compile(text, "<pipeline>", "exec")


def _choose_step(library: Library, rng: random.Random, out: pd.DataFrame, number: int) -> str:
    numeric = [label for label in out.columns if getattr(out[label].dtype, "kind", "O") in "if" and label != "k"]
    if not numeric:
        return ""
    values = {"n": rng.choice(numeric), "m": rng.choice(numeric), "k": rng.choice(list(out.columns)), "i": number}
    return rng.choice(library.steps).format(**values, v=round(rng.uniform(-1, 0.5), 2))


def check_pipeline(library: Library, seed: int) -> int:
    """Check the law for one pipeline; return the number of dependencies that the oracle found."""
    steps = generate_pipeline(library, seed)
    text = "\n".join(step.line for step in steps)
    code, frames = _compile(text), source_frames()
    where = f"seed {seed}\n{text}\n"
    output = library.run_untraced(code, frames)
    if output is None:
        # A step fits the types of a frame that was converted to pandas, but not those of the original.
        return 0
    captured = captured_sources(library, code, frames)
    changes = 0
    for source in _columns(frames):
        with tracing_suppressed():
            after = library.run_untraced(code, perturb(frames, source, 0))
            changed = changed_columns(output, after, is_ordered=library.is_ordered) if after is not None else set()
        missed = {label for label in changed if source not in captured.all_columns.get(label, captured.all_rows)}
        assert not missed, f"{missed} change with {source}: {where}"
        changes += len(changed)
    composed = Sources()
    for step in steps:
        sources = captured_sources(library, step.code, step.frames)
        invented = find_false_edges(library, step.code, step.frames, step.output, sources)
        assert not invented, f"{invented} of the step {step.line}: {where}"
        composed = _compose(composed, sources)
    extra = Sources(
        {label: found - composed.columns.get(label, set()) for label, found in captured.columns.items()},
        captured.rows - composed.rows,
    )
    invented = find_false_edges(library, code, frames, output, extra)
    assert not invented, f"{invented} of the pipeline: {where}"
    return changes


def count_over_reported(library: Library, seed: int) -> tuple[int, int]:
    """Return the number of captured edges of the steps whose target changes with no perturbation, and of all edges.

    Edges with a flag count, too.
    """
    false_edges = edges = 0
    for step in generate_pipeline(library, seed):
        captured = captured_sources(library, step.code, step.frames)
        columns = {label: found - captured.all_rows for label, found in captured.all_columns.items()}
        edges += sum(map(len, columns.values())) + len(captured.all_rows)
        sources = Sources(columns, captured.all_rows)
        false_edges += len(find_false_edges(library, step.code, step.frames, step.output, sources))
    return false_edges, edges


def _columns(frames: Frames) -> Iterator[Source]:
    return ((name, str(column)) for name, frame in frames.items() for column in frame.columns)


def captured_sources(library: Library, code: CodeType, frames: Frames) -> Sources:
    """Return the captured sources of a piece of code."""
    namespace = {**library.names, **{name: library.from_pandas(frame.copy()) for name, frame in frames.items()}}
    tokens = [clew.version(namespace[name], name=name) for name in frames]
    exec(code, namespace)
    output = namespace["out"]
    sources = Sources()
    for edge in clew.lineage(output, until=tokens).edges():
        source = (edge.source, str(edge.source_column))
        targets = [(sources.all_columns, sources.all_rows)]
        targets += [] if edge.opaque else [(sources.columns, sources.rows)]
        for columns, rows in targets:
            (rows if edge.column is None else columns.setdefault(str(edge.column), set())).add(source)
    for found in sources.all_columns.values():
        found.update(sources.all_rows)
    return sources


def _compose(before: Sources, step: Sources) -> Sources:
    """Return the sources of a step composed with those of the steps before it."""
    return Sources(
        {label: _expand(before, found) for label, found in step.columns.items()},
        _expand(before, step.rows) | before.rows,
    )


def _expand(before: Sources, found: set[Source]) -> set[Source]:
    inner = [before.columns.get(column, set()) | before.rows for name, column in found if name == "out"]
    return {source for source in found if source[0] != "out"}.union(*inner)


def find_false_edges(
    library: Library, code: CodeType, frames: Frames, output: pd.DataFrame, sources: Sources
) -> list[FalseEdge]:
    """Return the edges of unknown sources, and those whose target changes with no perturbation of their source."""
    targets: dict[Source, set[str | None]] = {}
    for label, found in [*sources.columns.items(), (None, sources.rows)]:
        for source in found:
            targets.setdefault(source, set()).add(label)
    # Named levels of the index are not compared.
    compared = {None, *map(str, output.columns)}
    false_edges = []
    for source, labels in targets.items():
        with tracing_suppressed():
            unchanged = _unchanged_targets(library, code, frames, output, source, labels & compared)
        false_edges += [FalseEdge(label, source) for label in unchanged]
    return false_edges


def _unchanged_targets(
    library: Library, code: CodeType, frames: Frames, output: pd.DataFrame, source: Source, labels: set[str | None]
) -> set[str | None]:
    """Return those of the labels that change with no perturbation of a source; levels of an index are not perturbed."""
    name, column = source
    if name in frames and column in map(str, frames[name].index.names):
        return set()
    if source not in _columns(frames):
        return labels
    pending = set(labels)
    for number in range(_ATTEMPTS if pending else 0):
        base, before = frames, output
        if number >= len(_PERTURBATIONS):
            # Other values and nulls in the other columns: `x.fillna(y)` depends on y only if x has nulls.
            base = _vary(frames, number)
            varied = library.run_untraced(code, base)
            if varied is None:
                continue
            before = varied
        after = library.run_untraced(code, perturb(base, source, number))
        if after is not None:
            changed: set[str | None] = {*changed_columns(before, after)}
            if changed or list(after.columns) != list(before.columns):
                changed.add(None)
            pending -= changed
        if not pending:
            break
    return pending


def _vary(frames: Frames, number: int) -> Frames:
    """Return the frames with other values in about half of their columns."""
    rng = np.random.default_rng(number)
    for source in _columns(frames):
        if rng.random() < 0.6:
            frames = perturb(frames, source, _NULLS if rng.random() < 0.5 else int(rng.integers(100)))
    return frames


def changed_columns(before: pd.DataFrame, after: pd.DataFrame, *, is_ordered: bool = True) -> set[str]:
    """Return the columns of both frames that differ."""
    labels = [label for label in before.columns if label in after.columns]
    if is_ordered:
        return {str(label) for label in labels if not _is_equal(before[label], after[label])}
    return {str(label) for label in labels if not _is_equal(_sort(before[label]), _sort(after[label]))}


def _sort(values: pd.Series) -> pd.Series:
    return values.sort_values(key=lambda column: column.map(str) if column.dtype.kind == "O" else column)


def _is_equal(left: pd.Series, right: pd.Series) -> bool:
    left, right = left.reset_index(drop=True), right.reset_index(drop=True)
    if len(left) == len(right) and {left.dtype.kind, right.dtype.kind} <= set("iuf"):
        # The same sum may differ in its last digit between runs.
        return bool(np.allclose(left, right, rtol=1e-9, atol=1e-12, equal_nan=True))
    return bool(left.equals(right))


def perturb(frames: Frames, source: Source, number: int) -> Frames:
    """Return the frames with other values in one column."""
    name, column = source
    label: Hashable = next(label for label in frames[name].columns if str(label) == column)
    values = frames[name][label].to_numpy()
    change = _PERTURBATIONS[number % len(_PERTURBATIONS)]
    rng = np.random.default_rng(number)
    changed = change(values, rng) if values.dtype.kind in "iuf" else _permute(values, rng)
    frame = frames[name].copy()
    # A list of lists is one column of objects.
    frame[label] = pd.Series(list(changed), index=frame.index)
    return {**frames, name: frame}


def _permute(values: Any, rng: Any) -> Any:
    if values.dtype.kind == "b":
        return rng.random(len(values)) < 0.5
    if all(isinstance(value, str | float) for value in values):
        return [None if rng.random() < 0.2 else f"{value}{rng.choice(['', 'p', 'q'])}" for value in values]
    return rng.permutation(values)


def _reverse(values: Any, _: Any) -> Any:
    changed = np.roll(values, 1)[::-1]
    return changed * 1.5 + 0.1 if values.dtype.kind == "f" else changed


def _draw(values: Any, rng: Any) -> Any:
    return rng.normal(size=len(values)) * 4 if values.dtype.kind == "f" else rng.integers(0, 9, len(values))


def _add_nulls(values: Any, rng: Any) -> Any:
    return np.where(rng.random(len(values)) < 0.5, np.nan, values)


def _repeat_one(values: Any, rng: Any) -> Any:
    return np.full_like(values, values[rng.integers(len(values))])


def _number_rows(values: Any, rng: Any) -> Any:
    return rng.permutation(len(values)).astype(values.dtype) - len(values) // 2


def _fill_nulls(values: Any, rng: Any) -> Any:
    return np.nan_to_num(values, nan=0.3) + rng.random() if values.dtype.kind == "f" else values + 1


def _change_one(values: Any, rng: Any) -> Any:
    changed = values.copy()
    changed[rng.integers(len(values))] += rng.integers(-9, 9)
    return changed


_PERTURBATIONS = (_reverse, _draw, _add_nulls, _repeat_one, _number_rows, _fill_nulls, _change_one)
_NULLS = _PERTURBATIONS.index(_add_nulls)
