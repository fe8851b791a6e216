"""Find a dataset or column by full name or unique suffix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from clew.errors import ClewError, UsageError
from clew.index.reader import IndexReader
from clew.query.model import DatasetName
from clew.query.schemas import column_names

_MAX_LISTED = 5
# Longer names are truncated in messages.
_MAX_NAME_CHARS = 200
# Comparing a name with a million others would take half a minute.
_MAX_COMPARED = 5_000
_DATASETS = "select namespace, name from datasets"
_NEWEST_FIRST = "order by last_seq desc, namespace, name"
COLUMN_FORM = "A column is written as DATASET.COLUMN, such as orders.csv.price."


class UnknownNameError(UsageError):
    """No entity has that name."""

    @classmethod
    def of(cls, kind: str, text: str, existing: Iterable[str], extra_hint: str = "") -> UnknownNameError:
        """Build the error with similar names as hint; `extra_hint` is appended."""
        text = text[:_MAX_NAME_CHARS]
        existing = list(islice(existing, _MAX_COMPARED))
        close = get_close_matches(text, existing, n=_MAX_LISTED, cutoff=0.5)
        if close:
            hint = f"Did you mean {_join_names(close)}?"
        elif existing:
            hint = f"Available: {_join_names(existing)}."
        else:
            hint = "Nothing was recorded yet: run `clew demo`."
        return cls(f"There is no {kind} {text!r}.", hint=f"{hint} {extra_hint}".rstrip())


class EmptyIndexError(ClewError):
    """The index has no data yet."""

    @classmethod
    def no_notebook_runs(cls) -> EmptyIndexError:
        """Build the error for an index without notebook runs."""
        hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."
        return cls("No notebook run was recorded yet.", hint=hint)


class AmbiguousNameError(UnknownNameError):
    """Several entities match the name."""

    @classmethod
    def among(cls, kind: str, text: str, candidates: list[str]) -> AmbiguousNameError:
        """Build the error with the candidates."""
        message = f"{text[:_MAX_NAME_CHARS]!r} matches {len(candidates)} {kind}s: {_join_names(candidates)}."
        return cls(message, hint="Give more of the name.")


class UnknownColumnError(UnknownNameError):
    """The dataset exists, but it has no such column."""


def resolve_dataset(index: IndexReader, text: str) -> DatasetName:
    """Find a dataset by full name or unique suffix (`orders.csv` for `/data/orders.csv`)."""
    matches = match_datasets(index, text)
    if not matches:
        existing = [DatasetName(row["namespace"], row["name"]) for row in index.datasets()]
        raise UnknownNameError.of("dataset", text, _short_names(existing))
    if len(matches) > 1:
        raise AmbiguousNameError.among("dataset", text, [full_name(dataset) for dataset in matches])
    return matches[0]


def match_datasets(index: IndexReader, text: str) -> list[DatasetName]:
    """Return all datasets that match a full name or a suffix."""
    rows = index.query(f"{_DATASETS} where name = ?1 or namespace || ':' || name = ?1 {_NEWEST_FIRST}", text)
    if not rows:
        ends_with = "substr(name, length(name) - length(?1) + 1) = ?1"
        rows = index.query(f"{_DATASETS} where {ends_with} {_NEWEST_FIRST}", f"/{text}")
    return [DatasetName(row["namespace"], row["name"]) for row in rows] or _match_symlinks(index, text)


def _match_symlinks(index: IndexReader, text: str) -> list[DatasetName]:
    """Return the datasets that match by a symlink name."""
    rows = index.symlinks()
    matches = {row for row in rows if text in {row["name"], full_name(DatasetName(row["namespace"], row["name"]))}}
    matches = matches or {row for row in rows if row["name"].endswith(f"/{text}")}
    return sorted({DatasetName(row["canonical_namespace"], row["canonical_name"]) for row in matches})


def find_column(index: IndexReader, text: str) -> tuple[DatasetName, str]:
    """Find the column of `dataset.column` or `dataset:column`; both names may contain dots."""
    errors: list[UnknownNameError] = []
    for dataset_name, column in _possible_splits(text):
        try:
            dataset = resolve_dataset(index, dataset_name)
            _require_column(index, dataset, dataset_name, column)
        except UnknownNameError as error:
            errors.append(error)
        else:
            return dataset, column
    raise _best_error(index, text, errors)


def _require_column(index: IndexReader, dataset: DatasetName, dataset_name: str, column: str) -> None:
    columns = column_names(index, dataset)
    if column not in columns:
        raise UnknownColumnError.of(f"column of {dataset_name}", column, columns)


def _best_error(index: IndexReader, text: str, errors: list[UnknownNameError]) -> UsageError:
    """Choose the most helpful error among those of all possible splits."""
    for kind in (AmbiguousNameError, UnknownColumnError):
        for error in errors:
            if isinstance(error, kind):
                return error
    try:
        columns = column_names(index, resolve_dataset(index, text))
    except UnknownNameError:
        return errors[0] if errors else UsageError(f"{text[:_MAX_NAME_CHARS]!r} is not a column.", hint=COLUMN_FORM)
    return UsageError(
        f"{text!r} is a dataset: append one of its columns.", hint=f"Its columns: {_join_names(columns)}."
    )


def full_name(dataset: DatasetName) -> str:
    """Return `namespace:name`."""
    return f"{dataset.namespace}:{dataset.name}"


def short_name(dataset: DatasetName) -> str:
    """Return the last path component: the file name or the notebook variable."""
    return dataset.name.rstrip("/").rsplit("/", 1)[-1]


def _short_names(datasets: list[DatasetName]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets))


def _possible_splits(text: str) -> list[tuple[str, str]]:
    positions = [position for position, character in enumerate(text) if character in ".:"]
    return [
        (text[:position], text[position + 1 :])
        for position in reversed(positions)
        if text[:position] and text[position + 1 :]
    ]


def _join_names(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"
