"""From what a person types to the dataset and column that is meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from clew.errors import ClewError, UsageError
from clew.index.reader import IndexReader
from clew.query.model import Dataset
from clew.query.schemas import column_names

_MOST_NAMED = 5
# A name that is longer is told by its beginning.
_LONGEST_TOLD = 200
# To compare a name with a million others would take half a minute.
_MOST_COMPARED = 5_000
_DATASETS = "select namespace, name from datasets"
_LAST_FIRST = "order by last_seq desc, namespace, name"
COLUMN_FORM = "A column is written as DATASET.COLUMN, such as orders.csv.price."


class UnknownNameError(UsageError):
    """Nothing of that name."""

    @classmethod
    def of(cls, what: str, text: str, known: Iterable[str], besides: str = "") -> UnknownNameError:
        """Say so, with what was perhaps meant; `besides` is another way to go on."""
        text = text[:_LONGEST_TOLD]
        known = list(islice(known, _MOST_COMPARED))
        close = get_close_matches(text, known, n=_MOST_NAMED, cutoff=0.5)
        if close:
            hint = f"Did you mean {_listed(close)}?"
        elif known:
            hint = f"There {'is' if len(known) == 1 else 'are'} {_listed(known)}."
        else:
            hint = "Nothing of the kind was recorded yet: run `clew demo`."
        return cls(f"There is no {what} {text!r}.", hint=f"{hint} {besides}".rstrip())


class NothingRecordedError(ClewError):
    """No notebook has run, and none was named."""

    @classmethod
    def yet(cls) -> NothingRecordedError:
        """Say how that changes."""
        hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."
        return cls("No notebook run was recorded yet.", hint=hint)


class AmbiguousNameError(UnknownNameError):
    """Too much of that name."""

    @classmethod
    def among(cls, what: str, text: str, candidates: list[str]) -> AmbiguousNameError:
        """Say which ones it could be."""
        message = f"{text[:_LONGEST_TOLD]!r} names {len(candidates)} {what}s: {_listed(candidates)}."
        return cls(message, hint="Give more of the name.")


class UnknownColumnError(UnknownNameError):
    """The dataset is known, the column is not."""


def find_dataset(index: IndexReader, text: str) -> Dataset:
    """The dataset of that name: whole, or by its last parts (`orders.csv` for `/data/orders.csv`)."""
    found = datasets_called(index, text)
    if not found:
        known = [Dataset(row["namespace"], row["name"]) for row in index.datasets()]
        raise UnknownNameError.of("dataset", text, _short_names(known))
    if len(found) > 1:
        raise AmbiguousNameError.among("dataset", text, [full_name(dataset) for dataset in found])
    return found[0]


def datasets_called(index: IndexReader, text: str) -> list[Dataset]:
    """All datasets of that name, likewise."""
    rows = index.ask(f"{_DATASETS} where name = ?1 or namespace || ':' || name = ?1 {_LAST_FIRST}", text)
    if not rows:
        ending = "substr(name, length(name) - length(?1) + 1) = ?1"
        rows = index.ask(f"{_DATASETS} where {ending} {_LAST_FIRST}", f"/{text}")
    return [Dataset(row["namespace"], row["name"]) for row in rows] or _by_symlink(index, text)


def _by_symlink(index: IndexReader, text: str) -> list[Dataset]:
    """The dataset that has the name by a symlink only."""
    rows = index.symlinks()
    found = {row for row in rows if text in {row["name"], full_name(Dataset(row["namespace"], row["name"]))}}
    found = found or {row for row in rows if row["name"].endswith(f"/{text}")}
    return sorted({Dataset(row["node_namespace"], row["node_name"]) for row in found})


def find_column(index: IndexReader, text: str) -> tuple[Dataset, str]:
    """The dataset and column of `dataset.column` or `dataset:column`: both names may hold dots themselves."""
    faults: list[UnknownNameError] = []
    for dataset_name, column in _splits(text):
        try:
            dataset = find_dataset(index, dataset_name)
            _require_column(index, dataset, dataset_name, column)
        except UnknownNameError as fault:
            faults.append(fault)
        else:
            return dataset, column
    raise _likeliest(index, text, faults)


def _require_column(index: IndexReader, dataset: Dataset, dataset_name: str, column: str) -> None:
    columns = column_names(index, dataset)
    if column not in columns:
        raise UnknownColumnError.of(f"column of {dataset_name}", column, columns)


def _likeliest(index: IndexReader, text: str, faults: list[UnknownNameError]) -> UsageError:
    """Of the faults of all ways to cut a text in two, the one that says most of what was meant."""
    for kind in (AmbiguousNameError, UnknownColumnError):
        for fault in faults:
            if isinstance(fault, kind):
                return fault
    try:
        columns = column_names(index, find_dataset(index, text))
    except UnknownNameError:
        return faults[0] if faults else UsageError(f"{text[:_LONGEST_TOLD]!r} names no column.", hint=COLUMN_FORM)
    return UsageError(f"{text!r} is a dataset: name one of its columns, too.", hint=f"It has {_listed(columns)}.")


def full_name(dataset: Dataset) -> str:
    """Namespace and name in one text."""
    return f"{dataset.namespace}:{dataset.name}"


def short_name(dataset: Dataset) -> str:
    """The last part of a path, which is how a person calls a file or a notebook's variable."""
    return dataset.name.rstrip("/").rsplit("/", 1)[-1]


def _short_names(datasets: list[Dataset]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets))


def _splits(text: str) -> list[tuple[str, str]]:
    places = [place for place, character in enumerate(text) if character in ".:"]
    return [(text[:place], text[place + 1 :]) for place in reversed(places) if text[:place] and text[place + 1 :]]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
