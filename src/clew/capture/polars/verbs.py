"""Rules for the methods of polars frames: what the columns of the result come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from clew.capture.flags import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    GROUP_BY,
    IDENTITY,
    JOIN,
    OPAQUE,
    SORT,
    TRANSFORMATION,
)
from clew.capture.polars.expressions import of_series, outputs, used_by, uses
from clew.capture.provenance import Provenance, composed, through, union, used_for
from clew.capture.records import Kind, Listed, SameLabels
from clew.capture.versions import FrameVersion


class Told(NamedTuple):
    """What a method did: its family, the edges of its columns, and what chose its rows."""

    kind: Kind
    edges: SameLabels | Listed
    rows: Provenance


class Verb(NamedTuple):
    """A method as it was called: on which versions, with what, and the labels that came out."""

    name: str
    sources: tuple[FrameVersion, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    labels: list[str]
    # The types of the first frame's columns, where they are known.
    schema: Any = None

    @property
    def source(self) -> FrameVersion:
        """The frame that the method was called on."""
        return self.sources[0]

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument given by position or by name."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if len(self.args) > position else default


Rule = Callable[[Verb], Told]


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _flat(given: Iterable[Any]) -> list[Any]:
    return [one for part in given for one in _listed(part)]


def same(step: int = IDENTITY, kind: Kind = "selection") -> Rule:
    """Every column through the same step."""
    return lambda verb: Told(kind, SameLabels(verb.source, step), {})


def _computed(verb: Verb) -> dict[Any, Provenance]:
    """The columns that expressions give, by position or under the names of keywords."""
    found: dict[Any, Provenance] = {}
    for expression in _flat(verb.args):
        for label, chosen in outputs(expression, verb.source, verb.labels, verb.schema):
            found[label] = uses(expression, verb.source, chosen)
    found.update({label: uses(value, verb.source, label) for label, value in verb.kwargs.items()})
    return found


def select(verb: Verb) -> Told:
    """frame.select(...)."""
    return Told("selection", Listed(_computed(verb)), {})


def with_columns(verb: Verb) -> Told:
    """frame.with_columns(...)."""
    return Told("assignment", SameLabels(verb.source, IDENTITY, _computed(verb)), {})


def filtered(verb: Verb) -> Told:
    """frame.filter(predicates, column=value)."""
    named = union(*[verb.source.field(name) for name in verb.kwargs])
    rows = used_for(union(used_by(_flat(verb.args), verb.source), named), FILTER)
    return Told("selection", SameLabels(verb.source), rows)


def by_columns(position: int, name: str, use: int) -> Rule:
    """Rows ordered or dropped by some columns, all of them where none is given."""

    def rule(verb: Verb) -> Told:
        given = verb.argument(position, name)
        more = verb.args[position + 1 :] if name == "by" else ()
        expressions = _flat((given, more)) if given is not None else list(verb.source.columns)
        rows = used_for(used_by(expressions, verb.source), use)
        return Told("sort" if use == SORT else "selection", SameLabels(verb.source), rows)

    return rule


def renamed(verb: Verb) -> Told:
    """frame.rename(mapping): by position."""
    pairs = zip(verb.labels, verb.source.columns, strict=False)
    return Told("transformation", Listed({after: verb.source.field(before) for after, before in pairs}), {})


def exploded(verb: Verb) -> Told:
    """frame.explode(columns)."""
    labels = _flat(verb.args)
    changed: dict[Any, Provenance] = {
        label: through(verb.source.field(label), TRANSFORMATION) for label in labels if isinstance(label, str)
    }
    return Told("reshape", SameLabels(verb.source, IDENTITY, changed), {})


def unpivoted(verb: Verb) -> Told:
    """frame.unpivot(on, index=...): columns become rows."""
    kept = _listed(verb.kwargs.get("index"))
    on = _listed(verb.argument(0, "on")) or [label for label in verb.source.columns if label not in kept]
    value = verb.kwargs.get("value_name") or "value"
    fields: dict[Any, Provenance] = {label: verb.source.field(label) for label in kept}
    fields[value] = union(*[verb.source.field(label) for label in on if isinstance(label, str)])
    return Told("reshape", Listed(fields), {})


def pivoted(verb: Verb) -> Told:
    """frame.pivot(on, index=..., values=...): one column per value."""
    on, index = _listed(verb.argument(0, "on")), _listed(verb.kwargs.get("index"))
    values = _listed(verb.kwargs.get("values"))
    measured = composed(used_by(values, verb.source), AGGREGATION)
    fields: dict[Any, Provenance] = {
        label: verb.source.field(label) if label in index else measured for label in verb.labels
    }
    return Told("reshape", Listed(fields), used_for(used_by([*on, *index], verb.source), GROUP_BY))


def grouped(verb: Verb) -> Told:
    """frame.group_by(keys).agg(expressions): the keys stand before the expressions in `args`."""
    keys, expressions, named = verb.args
    fields: dict[Any, Provenance] = {}
    for key in keys:
        given = outputs(key, verb.source, verb.labels, verb.schema)
        fields.update({label: uses(key, verb.source, chosen) for label, chosen in given})
    for expression in expressions:
        for label, chosen in outputs(expression, verb.source, verb.labels, verb.schema):
            # `pl.all()` means all but the keys.
            fields.setdefault(label, composed(uses(expression, verb.source, chosen), AGGREGATION))
    fields.update({label: composed(uses(value, verb.source, label), AGGREGATION) for label, value in named.items()})
    return Told("aggregation", Listed(fields), used_for(used_by(keys, verb.source), GROUP_BY))


def whole_groups(verb: Verb) -> Told:
    """frame.group_by(keys).head(n): rows of each group as they are."""
    return Told("selection", SameLabels(verb.source), used_for(used_by(verb.args[0], verb.source), GROUP_BY))


def joined_where(verb: Verb) -> Told:
    """frame.join_where(other, predicates): rows that meet a condition on columns of both."""
    left, right = verb.sources[:2]
    suffix = verb.kwargs.get("suffix", "_right")
    both = FrameVersion.standing_in(None, verb.labels, {})
    both.substitutes = {label: _joined_field(label, left, right, suffix) for label in verb.labels}
    rows = used_for(used_by(_flat(verb.args[1:]), both), JOIN)
    return Told("join", Listed(both.substitutes), rows)


def beside(verb: Verb) -> Told:
    """frame.hstack(columns): other columns, as they are."""
    given = verb.args[0] if verb.args else verb.kwargs.get("columns")
    found: dict[Any, Provenance] = {}
    if len(verb.sources) > 1:
        found = {label: verb.sources[1].field(label) for label in verb.sources[1].columns}
    elif isinstance(given, (list, tuple)):
        found = {series.name: of_series(series) for series in given}
    return Told("assignment", SameLabels(verb.source, IDENTITY, found), {})


def unnested(verb: Verb) -> Told:
    """frame.unnest(columns): the fields of a struct become columns."""
    structs = used_by(_flat(verb.args), verb.source)
    new: dict[Any, Provenance] = {
        label: through(structs, TRANSFORMATION) for label in verb.labels if not verb.source.has(label)
    }
    return Told("transformation", SameLabels(verb.source, IDENTITY, new), {})


def joined(verb: Verb) -> Told:
    """frame.join(other, on=...), join_asof: the key from the side that keeps its rows."""
    left, right = verb.sources[:2]
    how, suffix = verb.kwargs.get("how", "inner"), verb.kwargs.get("suffix", "_right")
    on = verb.kwargs.get("on", verb.args[1] if len(verb.args) > 1 else None)
    by = _listed(verb.kwargs.get("by"))
    left_keys = [*_listed(on if on is not None else verb.kwargs.get("left_on")), *by]
    right_keys = [*_listed(on if on is not None else verb.kwargs.get("right_on")), *by]
    rows = union(
        used_for(used_by(left_keys, left), JOIN),
        used_for(used_by(right_keys, right), JOIN),
    )
    fields: dict[Any, Provenance] = {label: _joined_field(label, left, right, suffix) for label in verb.labels}
    if how in ("full", "outer") and verb.kwargs.get("coalesce"):
        for one, other in zip(left_keys, right_keys, strict=False):
            both = union(left.field(one), right.field(other))
            fields[one] = union(composed(both, TRANSFORMATION), used_for(both, CONDITIONAL))
    elif how == "right":
        fields.update({key: right.field(key) for key in right_keys if isinstance(key, str)})
    return Told("join", Listed(fields), rows)


def _joined_field(label: str, left: FrameVersion, right: FrameVersion, suffix: str) -> Provenance:
    if left.has(label):
        return left.field(label)
    plain = label.removesuffix(suffix)
    return right.field(label) if right.has(label) else right.field(plain) if right.has(plain) else {}


def concatenated(verb: Verb) -> Told:
    """pl.concat(frames): the union of each label."""
    fields: dict[Any, Provenance] = {
        label: union(*[one.field(label) for one in verb.sources if one.has(label)]) for label in verb.labels
    }
    return Told("concat", Listed(fields), {})


def unknown(verb: Verb) -> Told:
    """A method without a rule: from all columns, and flagged as such."""
    everything = verb.source.fields(None, TRANSFORMATION | OPAQUE)
    new: dict[Any, Provenance] = {label: everything for label in verb.labels if not verb.source.has(label)}
    return Told("unknown", SameLabels(verb.source, TRANSFORMATION | OPAQUE, new), {})


_SAME = (
    "head tail limit slice first last sample gather_every drop clone lazy collect rechunk set_sorted shrink_to_fit "
    "with_row_index reverse cache collect_async __getitem__"
).split()
_AGGREGATES = "sum mean min max median std var count null_count quantile product n_unique describe".split()
_CHANGED = "fill_null fill_nan cast shift interpolate map_columns".split()

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, same()),
    **dict.fromkeys(_AGGREGATES, same(AGGREGATION, "aggregation")),
    **dict.fromkeys(_CHANGED, same(TRANSFORMATION, "transformation")),
    "select": select,
    "select_seq": select,
    "with_columns": with_columns,
    "with_columns_seq": with_columns,
    "filter": filtered,
    "remove": filtered,
    "sort": by_columns(0, "by", SORT),
    "top_k": by_columns(1, "by", SORT),
    "bottom_k": by_columns(1, "by", SORT),
    "unique": by_columns(0, "subset", FILTER),
    "drop_nulls": by_columns(0, "subset", FILTER),
    "drop_nans": by_columns(0, "subset", FILTER),
    "rename": renamed,
    "explode": exploded,
    "unpivot": unpivoted,
    "pivot": pivoted,
    "agg": grouped,
    "group_head": whole_groups,
    "unnest": unnested,
    "hstack": beside,
    "join_where": joined_where,
    **dict.fromkeys(("vstack", "extend"), concatenated),
    "join": joined,
    "join_asof": joined,
    "concat": concatenated,
}
