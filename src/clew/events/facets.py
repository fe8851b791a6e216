"""Typed access to the standard facets. Malformed parts of a facet are treated as absent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache, wraps
from typing import Any, Final, NamedTuple, TypeVar
from uuid import NAMESPACE_URL, uuid3

import msgspec
from msgspec import Raw, Struct, field

from clew.events.decoding import decode_optional, is_name
from clew.events.ids import content_id
from clew.events.openlineage import Facets, parse_time, to_epoch_micros

T = TypeVar("T")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_decode = msgspec.json.Decoder().decode
# Many events repeat the same small facets, such as jobType or parent. Large ones are not worth the memory.
_MAX_CACHED = 4096
_MAX_CACHED_BYTES = 4 << 10


def decode_facet(facet: bytes) -> dict[str, Any]:
    """Decode a facet; empty if it is not an object, or was deleted."""
    try:
        value = _decode(facet)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) and value.get("_deleted") is not True else {}


def get_str(value: object, *path: str) -> str | None:
    """Return the string at a path; None if there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def get_name(value: object, *path: str) -> str | None:
    """Return the string at a path if it can identify an entity."""
    text = get_str(value, *path)
    return text if text is not None and is_name(text) else None


def get_objects(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects of a list; other items are skipped."""
    items = value.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def cached_by_bytes(parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Cache a parser by the bytes of small facets."""
    cached = lru_cache(_MAX_CACHED)(parse)

    # With the name of the wrapped function, so that Spark pickles the reference and not the cache.
    @wraps(parse)
    def parse_cached(facet: bytes) -> T:
        return cached(facet) if len(facet) <= _MAX_CACHED_BYTES else parse(facet)

    return parse_cached


class _Deletable(Struct):
    deleted: bool | None = field(default=None, name="_deleted")


_decode_deletable = msgspec.json.Decoder(_Deletable).decode


def is_deleted(facet: bytes) -> bool:
    """Return True if the facet is `_deleted`, which removes the earlier facet of that name."""
    # `find` needs two thirds of the time of `in`.
    if facet.find(b'"_deleted"') < 0:
        return False
    try:
        return _decode_deletable(facet).deleted is True
    except msgspec.DecodeError:
        return False


class FacetOrder(StrEnum):
    """Order in which a later facet replaces an earlier one."""

    RECEIVED = "received"
    EVENT_TIME = "event_time"

    @property
    def option(self) -> str:
        """Value of the command-line option."""
        return self.value.replace("_", "-")

    @property
    def description(self) -> str:
        """Description for messages: "facets are ordered by …"."""
        return "event time" if self is FacetOrder.EVENT_TIME else "time of receipt"

    def sort_key(self, seq: int, event_time: int) -> tuple[int, int]:
        """Return the sort key of a facet: the greatest wins; facets of equal event time are ordered by receipt."""
        return (event_time, seq) if self is FacetOrder.EVENT_TIME else (seq, event_time)


# In this order: the row count of a run precedes that of the dataset if one event has both.
ROW_COUNT_FACETS: Final = ("outputStatistics", "inputStatistics", "dataQualityMetrics", "columnMetrics")
ROW_COUNT_KEY: Final = '"rowCount"'
_KEY_BYTES = ROW_COUNT_KEY.encode()
_MAX_INT64 = 2**63 - 1


class Schema(NamedTuple):
    """A schema with the hash of its content as id; `fields` is the facet's JSON without whitespace."""

    schema_id: str
    fields: str


class _SchemaFacet(Struct):
    fields: Raw = Raw()


class _CountingFacet(Struct, rename="camel"):
    row_count: int | float | None = None


_decode_count = msgspec.json.Decoder(_CountingFacet).decode
_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


@cached_by_bytes
def parse_schema(facet: bytes) -> Schema | None:
    """Parse a `schema` facet; None if it has no list of fields or was deleted."""
    decoded = decode_optional(Raw(facet), _decode_schema)
    if decoded is None or not bytes(decoded.fields).startswith(b"[") or is_deleted(facet):
        return None
    fields = msgspec.json.format(bytes(decoded.fields), indent=-1)
    return Schema(content_id(fields), fields.decode())


def has_row_count(facet: bytes) -> bool:
    """Return True if the facet may have a `rowCount`, without parsing it."""
    return _KEY_BYTES in facet


def parse_row_count(facet: bytes) -> int | None:
    """Parse the `rowCount` of a statistics or metrics facet."""
    decoded = decode_optional(Raw(facet), _decode_count)
    return None if decoded is None or is_deleted(facet) else as_int64(decoded.row_count)


def as_int64(number: float | None) -> int | None:
    """Convert to a 64-bit integer; None if the number is not integral or too large."""
    if number is None:
        return None
    whole = int(number)
    return whole if whole == number and abs(whole) <= _MAX_INT64 else None


class RunRef(NamedTuple):
    """Reference to a parent or root run, with its job if namespace and name are present."""

    run_uuid: str
    job: tuple[str, str] | None


class ParentFacet(NamedTuple):
    """Content of the `parent` facet; `names` are run id, job namespace and job name of the parent, then of the root."""

    names: tuple[str | None, ...]
    runs: tuple[RunRef, ...]

    @property
    def job(self) -> tuple[str, str] | None:
        """Job of the parent, if namespace and name are present."""
        _, namespace, name, *_ = self.names
        return None if namespace is None or name is None else (namespace, name)


class NominalTime(NamedTuple):
    """Nominal start and end in epoch microseconds; None if missing or invalid."""

    start_at: int | None
    end_at: int | None


class RunError(NamedTuple):
    """Content of the `errorMessage` facet."""

    message: str | None
    language: str | None


def find_parent(facets: Facets, job: tuple[str | None, str | None]) -> ParentFacet | None:
    """Return the content of the `parent` facet of a run of a job.

    Airflow once named it `parentRun`, and for a while sent both. As in Marquez, the old name wins.
    """
    facet = facets.get("parentRun") or facets.get("parent")
    if facet is None:
        return None
    parent = parse_parent(bytes(facet))
    return _find_dag(parent) if parent.job == job else parent


def _find_dag(parent: ParentFacet) -> ParentFacet:
    """Return the DAG and its run as parent, if Airflow before 2.1 has named the task and the schedule instead.

    The id of the run is that of Marquez.
    """
    schedule, namespace, task, *root = parent.names
    dag = (task or "").rpartition(".")[0]
    if not schedule or not dag or _UUID.fullmatch(schedule):
        return parent
    run_uuid = str(uuid3(NAMESPACE_URL, f"{namespace}.{dag}.{schedule}"))
    names = run_uuid, namespace, dag
    return ParentFacet((*names, *root), (_run_ref(*names), *parent.runs[1:]))


@cached_by_bytes
def parse_parent(facet: bytes) -> ParentFacet:
    """Parse a `parent` facet."""
    value = decode_facet(facet)
    names = [_names(value), _names(value.get("root"))]
    return ParentFacet((*names[0], *names[1]), tuple(_run_ref(*name) for name in names if name[0]))


@cached_by_bytes
def parse_nominal_time(facet: bytes) -> NominalTime:
    """Parse a `nominalTime` facet."""
    value = decode_facet(facet)
    return NominalTime(
        parse_epoch_micros(get_str(value, "nominalStartTime")), parse_epoch_micros(get_str(value, "nominalEndTime"))
    )


def parse_run_error(facet: bytes) -> RunError:
    """Parse an `errorMessage` facet."""
    value = decode_facet(facet)
    return RunError(get_str(value, "message"), get_str(value, "programmingLanguage"))


def _names(value: object) -> tuple[str | None, str | None, str | None]:
    return get_name(value, "run", "runId"), get_name(value, "job", "namespace"), get_name(value, "job", "name")


def _run_ref(run_uuid: str | None, namespace: str | None, name: str | None) -> RunRef:
    return RunRef(run_uuid or "", None if namespace is None or name is None else (namespace, name))


def parse_epoch_micros(text: str | None) -> int | None:
    """Parse a timestamp to epoch microseconds; None if it is invalid."""
    try:
        return None if text is None else to_epoch_micros(parse_time(text))
    except ValueError:
        return None


class JobType(NamedTuple):
    """Content of the `jobType` facet."""

    job_type: str | None
    integration: str | None
    processing_type: str | None


@cached_by_bytes
def parse_job_type(facet: bytes) -> JobType:
    """Parse a `jobType` facet."""
    value = decode_facet(facet)
    return JobType(get_str(value, "jobType"), get_str(value, "integration"), get_str(value, "processingType"))


@cached_by_bytes
def parse_source_code_location(facet: bytes) -> str | None:
    """Parse a `sourceCodeLocation` facet to `url`, or else repository and path, followed by `@version`."""
    value = decode_facet(facet)
    parts = [part for part in (get_str(value, "repoUrl"), get_str(value, "path")) if part]
    location, version = get_str(value, "url") or "/".join(parts), get_str(value, "version")
    return (f"{location}@{version}" if version else location) or None


@cached_by_bytes
def parse_description(facet: bytes) -> str | None:
    """Parse the description of a `documentation` facet of a job or a dataset."""
    return get_str(decode_facet(facet), "description")


class Tag(NamedTuple):
    """A tag of an entity, or of a column (`field`) of a dataset."""

    field: str | None
    key: str
    value: str | None
    source: str | None


class Owner(NamedTuple):
    """An owner and their role (`type`)."""

    owner: str
    type: str | None


def parse_tags(facet: bytes) -> list[Tag]:
    """Parse a `tags` facet of a run, a job or a dataset."""
    tags = get_objects(decode_facet(facet), "tags")
    return [
        Tag(get_str(tag, "field"), key, get_str(tag, "value"), get_str(tag, "source"))
        for tag in tags
        if (key := get_str(tag, "key")) is not None
    ]


def parse_owners(facet: bytes) -> list[Owner]:
    """Parse an `ownership` facet."""
    owners = get_objects(decode_facet(facet), "owners")
    return [Owner(name, get_str(owner, "type")) for owner in owners if (name := get_str(owner, "name")) is not None]


ASSERTIONS_FACET: Final = "dataQualityAssertions"
METRICS_FACET: Final = "dataQualityMetrics"


class QualityAssertion(NamedTuple):
    """Result of a data quality test; `success` is None if the event does not have it.

    `occurrence` numbers the assertions of a facet that have the same kind, column and name.
    """

    assertion: str
    column: str | None
    name: str | None
    occurrence: int
    success: bool | None
    severity: str | None
    description: str | None
    expected: str | None
    actual: str | None
    content: str | None
    content_type: str | None
    params: str | None

    @property
    def key(self) -> tuple[str, str | None, str | None, int]:
        """Identity of the test on its dataset."""
        return self[:4]


_ASSERTION_TEXTS = ("severity", "description", "expected", "actual", "content", "contentType", "params")


@cached_by_bytes
def parse_quality_assertions(facet: bytes) -> tuple[QualityAssertion, ...]:
    """Parse a `dataQualityAssertions` facet; items without an assertion and a name are skipped."""
    counts = Counter[tuple[str | None, ...]]()
    assertions = []
    for item in get_objects(decode_facet(facet), "assertions"):
        kind, column, name = (_as_text(item.get(key)) for key in ("assertion", "column", "name"))
        test = kind or name
        if test:
            success = item.get("success")
            values = [_as_text(item.get(key)) for key in _ASSERTION_TEXTS]
            assertions.append(
                QualityAssertion(
                    *(test, column, name, counts[test, column, name]),
                    success if isinstance(success, bool) else None,
                    *values,
                )
            )
            counts[test, column, name] += 1
    return tuple(assertions)


def _as_text(value: object) -> str | None:
    """Return a string, or other content as JSON; None if it is empty."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode() if value not in (None, {}) else None
    # PostgreSQL cannot store NUL.
    return text.replace("\x00", "\ufffd") if text else None


LIFECYCLE_FACET: Final = "lifecycleStateChange"
DROP: Final = "DROP"
RENAME: Final = "RENAME"


class LifecycleChange(NamedTuple):
    """A lifecycle state change, with the previous name of a renamed dataset."""

    state: str
    previous_namespace: str | None
    previous_name: str | None

    @property
    def previous(self) -> tuple[str, str] | None:
        """Previous namespace and name, if both are present."""
        namespace, name = self.previous_namespace, self.previous_name
        return None if namespace is None or name is None else (namespace, name)


@cached_by_bytes
def parse_lifecycle_change(facet: bytes) -> LifecycleChange | None:
    """Parse a facet; None if it has no state, or was deleted."""
    value = decode_facet(facet)
    state = get_str(value, LIFECYCLE_FACET)
    if not state:
        return None
    before = get_name(value, "previousIdentifier", "namespace"), get_name(value, "previousIdentifier", "name")
    is_renamed = state == RENAME and None not in before
    return LifecycleChange(state, *(before if is_renamed else (None, None)))


Name = tuple[str, str]


def resolve_aliases(symlinks: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """Map each name to its canonical name, given pairs of a dataset and a symlink of it.

    The canonical name is the smallest name of the group that has a symlinks facet: the target of a symlink alone is
    never canonical. Names without aliases are left out.
    """
    pairs = list(symlinks)
    forest: dict[Name, Name] = {}
    for owner, alias in pairs:
        _union(forest, owner, alias)
    canonical_by_root: dict[Name, Name] = {}
    for owner, _ in pairs:
        root = _root(forest, owner)
        canonical_by_root[root] = min(canonical_by_root.get(root, owner), owner)
    canonical = {name: canonical_by_root[_root(forest, name)] for name in list(forest)}
    shared = {node for name, node in canonical.items() if name != node}
    return {name: node for name, node in canonical.items() if node in shared}


def _union(forest: dict[Name, Name], left: Name, right: Name) -> None:
    forest.setdefault(left, left)
    forest.setdefault(right, right)
    forest[_root(forest, left)] = _root(forest, right)


def _root(forest: dict[Name, Name], name: Name) -> Name:
    while forest[name] != name:
        # Path halving.
        forest[name] = forest[forest[name]]
        name = forest[name]
    return name


SYMLINKS_FACET: Final = "symlinks"


@cached_by_bytes
def parse_symlinks(facet: bytes) -> tuple[Name, ...]:
    """Parse the distinct aliases, sorted; empty if the facet was deleted."""
    names = (
        (get_name(item, "namespace"), get_name(item, "name"))
        for item in get_objects(decode_facet(facet), "identifiers")
    )
    return tuple(sorted({(namespace, name) for namespace, name in names if namespace is not None and name is not None}))
