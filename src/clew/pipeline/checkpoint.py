"""Checkpoint: Spark offsets, batch history, raw-only ranges."""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec
from msgspec import Raw, Struct, to_builtins

from clew.data_dir import DataDir, replace_file
from clew.eventlog.retention import Lag, measure_lag
from clew.eventlog.writer import LogWriter

if TYPE_CHECKING:
    from clew.kafka.config import KafkaConfig
    from clew.kafka.producer import TopicWriter

NO_BATCH = -1


_APP_FILE = "app"


class SourceOffset(Struct, frozen=True, omit_defaults=True):
    """Offset of the streaming query: a position of the log, or the offsets of a topic and the position they stand for.

    Positions of a topic continue those of the log, so that `seq` grows over both.
    """

    position: int
    topic: str = ""
    topic_id: str = ""
    partitions: dict[str, int] = {}

    def encode(self) -> bytes:
        """Encode it as Spark's Python sources do: Spark compares offsets as text."""
        return json.dumps(to_builtins(self)).encode()


_decode_offset = msgspec.json.Decoder(SourceOffset).decode


class BatchPlan(Struct, frozen=True):
    """A batch that Spark started: its range in the log. An interrupted batch is repeated with the same range."""

    app_id: str
    number: int
    start: int
    end: int
    # Of a topic.
    start_offset: SourceOffset | None = None
    end_offset: SourceOffset | None = None


_decode_plan = msgspec.json.Decoder(BatchPlan).decode
_PLAN_FILE = "batch.json"
_REINDEX_FILE = "reindex"
_HISTORY_FILE = "batch_history.json"
_OFFSETS, _COMMITS, _METADATA = "offsets", "commits", "metadata"
# The header of Hadoop's checksum files, and the bytes per checksum.
_CRC_HEADER, _CRC_BYTES = b"crc\0\0\0\2\0", 512
# Spark 4.2 requires the number of partitions.
_EMPTY_METADATA = b'{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{"spark.sql.shuffle.partitions":"2"}}'
_COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'


class Checkpoint:
    """The checkpoint folder of the streaming query and its application id."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.folder = folder / "log"

    @property
    def app_id(self) -> str:
        """Delta application id of this checkpoint: a new checkpoint numbers batches from 0 and needs a new id."""
        if not self.stored_app_id:
            self._write_app_id(f"clew-{uuid.uuid4()}")
        return self.stored_app_id

    @property
    def stored_app_id(self) -> str:
        """The application id; empty if there is none yet."""
        try:
            return (self.root / _APP_FILE).read_text().strip("\0 \n")
        except (OSError, UnicodeDecodeError):
            return ""

    @property
    def last_committed_batch(self) -> int:
        """The number of the last committed batch."""
        return self._last_number(_COMMITS)

    @property
    def last_planned_batch(self) -> int:
        """The number of the last planned batch."""
        return self._last_number(_OFFSETS)

    @property
    def committed_offset(self) -> int:
        """The log offset up to which batches are committed."""
        return self.batch_end_offset(self.last_committed_batch) or 0

    @property
    def planned_offset(self) -> int:
        """The log offset up to which batches are planned: an uncommitted batch is repeated with the same range."""
        return self.batch_end_offset(self.last_planned_batch) or 0

    @property
    def topic(self) -> str:
        """The topic that is read; empty for the log, and for a new checkpoint."""
        offset = self.batch_offset(self.last_planned_batch)
        if offset is not None:
            return offset.topic
        plan = self.read_plan()
        return "" if plan is None or plan.end_offset is None else plan.end_offset.topic

    def _last_number(self, folder: str) -> int:
        return max(self._numbers(folder), default=NO_BATCH)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(path.name) for path in self.folder.glob(f"{folder}/*") if path.name.isdecimal())

    def batch_end_offset(self, batch: int) -> int | None:
        """Return the position at the end of a batch; None if Spark has deleted it."""
        if batch == NO_BATCH:
            return 0
        offset = self.batch_offset(batch)
        return None if offset is None else offset.position

    def batch_offset(self, batch: int) -> SourceOffset | None:
        """Return the end offset of a batch; None if there is none, or Spark has deleted it."""
        try:
            # Spark's offset file: a version, metadata, then one line per source.
            last_line = (self.folder / _OFFSETS / str(batch)).read_bytes().splitlines()[-1]
            return _decode_offset(last_line)
        except (OSError, IndexError, msgspec.DecodeError):
            return None

    def record_plan(self, number: int) -> None:
        """Store the range of a batch that Spark has started: its own files may be damaged later."""
        start, end = self.batch_end_offset(number - 1), self.batch_end_offset(number)
        if start is not None and end is not None:
            _write(self.root / _PLAN_FILE, self._plan(self.app_id, number))

    def read_plan(self) -> BatchPlan | None:
        """Return the last batch that Spark started, from the sources that are intact."""
        app_id, plans = self._known_app_id(), self._stored_plans()
        last = self.last_planned_batch
        if last != NO_BATCH and all(self._is_intact(f"{_OFFSETS}/{number}") for number in {max(0, last - 1), last}):
            # First, because its files have checksums.
            plans.insert(0, self._plan(app_id, last))
        known = (plan for plan in plans if plan.app_id == app_id)
        return max(known, key=lambda plan: (plan.number, plan.end > plan.start), default=None)

    def _plan(self, app_id: str, number: int) -> BatchPlan:
        start, end = (self.batch_offset(batch) or SourceOffset(0) for batch in (number - 1, number))
        return BatchPlan(app_id, number, start.position, end.position, start, end)

    def _stored_plans(self) -> list[BatchPlan]:
        plans: list[BatchPlan] = []
        with suppress(OSError, msgspec.DecodeError):
            plans.append(_decode_plan((self.root / _PLAN_FILE).read_bytes()))
        # Of a batch of the history only the end is known: the range is empty.
        records = read_batch_records(self.root)[-1:]
        return plans + [
            BatchPlan(batch.app_id, batch.number, batch.end_offset, batch.end_offset, batch.source, batch.source)
            for batch in records
        ]

    def _known_app_id(self) -> str:
        """Return the application id that most files have."""
        ids = [self.stored_app_id, *(plan.app_id for plan in self._stored_plans())]
        return next((app_id for app_id, _ in Counter(filter(None, ids)).most_common(1)), "")

    def find_damage(self) -> str | None:
        """Return the first file of the checkpoint that is missing or damaged, with the reason."""
        offsets, commits = self._numbers(_OFFSETS), self._numbers(_COMMITS)
        plan = self.read_plan()
        last = max(offsets[-1:] + commits[-1:] + ([] if plan is None else [plan.number]), default=NO_BATCH)
        if last == NO_BATCH:
            return None
        app = self.root / _APP_FILE
        required = [app, self.folder / _METADATA]
        required += [self.folder / _OFFSETS / str(number) for number in range(max(0, last - 1), last + 1)]
        if last not in commits and last > 0:
            # Only the last batch can be uncommitted.
            required.append(self.folder / _COMMITS / str(last - 1))
        for path in required:
            if not path.is_file():
                return f"{path} is missing"
        if self.stored_app_id != self._known_app_id() or not self.stored_app_id:
            return f"{app} is damaged"
        names = [_METADATA, *(f"{_OFFSETS}/{number}" for number in offsets)]
        names += [f"{_COMMITS}/{number}" for number in commits]
        return next((f"{self.folder / name} is damaged" for name in names if not self._is_intact(name)), None)

    def _is_intact(self, name: str) -> bool:
        """Return whether a file has the expected format, and the checksums that Hadoop wrote beside it, if any."""
        path = self.folder / name
        try:
            content = path.read_bytes()
            checksums = path.with_name(f".{path.name}.crc")
            if checksums.exists():
                chunks = (content[start : start + _CRC_BYTES] for start in range(0, len(content), _CRC_BYTES))
                if checksums.read_bytes() != _CRC_HEADER + b"".join(crc32(chunk).to_bytes(4) for chunk in chunks):
                    return False
        except OSError:
            return False
        return _IS_VALID[name.partition("/")[0]](content)

    def restore(self, plan: BatchPlan) -> Path:
        """Write the files of Spark again, so that it repeats a batch; return where the old ones are."""
        old = self._set_aside(must_reindex=plan.start == plan.end)
        self._write_app_id(plan.app_id)
        self._write_offset(plan.number, plan.end_offset or SourceOffset(plan.end))
        if plan.number:
            self._write_offset(plan.number - 1, plan.start_offset or SourceOffset(plan.start))
            _write_bytes(self.folder / _COMMITS / str(plan.number - 1), _COMMIT)
        return old

    def restart(self, offset: SourceOffset, *, must_reindex: bool = True) -> Path:
        """Start a new checkpoint, with a new application id, at an offset; return where the old one is.

        The index must know all events of the lake, so that those read again are skipped.
        """
        old = self._set_aside(must_reindex=must_reindex)
        for name in (_PLAN_FILE, _HISTORY_FILE):
            (self.root / name).unlink(missing_ok=True)
        self._write_app_id(f"clew-{uuid.uuid4()}")
        self._write_offset(0, offset)
        _write_bytes(self.folder / _COMMITS / "0", _COMMIT)
        return old

    def copy_until(self, batch: int, target: Path) -> None:
        """Copy the checkpoint as it was when a batch was committed: later batches are planned anew.

        The files of earlier batches are copied as well, because the index may lack them.
        """
        copy = Checkpoint(target)
        numbers = [number for number in self._numbers(_OFFSETS) if number <= batch]
        names = [f"log/{_METADATA}", *(f"log/{_OFFSETS}/{number}" for number in numbers)]
        names += [f"log/{_COMMITS}/{number}" for number in self._numbers(_COMMITS) if number <= batch]
        # The plan and the history are of later batches.
        omitted = {_PLAN_FILE, _HISTORY_FILE}
        names += [path.name for path in self.root.iterdir() if path.is_file() and path.name not in omitted]
        for name in names:
            # With the checksum that Hadoop wrote beside it.
            for path in (self.root / name, (self.root / name).with_name(f".{Path(name).name}.crc")):
                if path.exists():
                    _write_bytes(target / path.relative_to(self.root), path.read_bytes())
        if batch != NO_BATCH and batch not in copy._numbers(_COMMITS):
            # Spark records a batch after the lake has it.
            _write_bytes(copy.folder / _COMMITS / str(batch), _COMMIT)

    @property
    def must_reindex(self) -> bool:
        """Return whether the index must be rebuilt: it may lack events before the position of a repair."""
        return (self.root / _REINDEX_FILE).exists()

    def request_reindex(self) -> None:
        """Record that the index must be rebuilt from the lake."""
        _write_bytes(self.root / _REINDEX_FILE, b"")

    def record_reindex(self) -> None:
        """Record that the index was rebuilt."""
        (self.root / _REINDEX_FILE).unlink(missing_ok=True)

    def _set_aside(self, *, must_reindex: bool) -> Path:
        if must_reindex:
            self.request_reindex()
        target = self.folder.with_name(f"{self.folder.name}.damaged")
        if target.exists():
            shutil.rmtree(target)
        if self.folder.exists():
            self.folder.replace(target)
        _write_bytes(self.folder / _METADATA, b'{"id":"%s"}' % str(uuid.uuid4()).encode())
        return target

    def _write_offset(self, number: int, offset: SourceOffset) -> None:
        _write_bytes(self.folder / _OFFSETS / str(number), b"v1\n%s\n%s" % (_EMPTY_METADATA, offset.encode()))

    def _write_app_id(self, app_id: str) -> None:
        _write_bytes(self.root / _APP_FILE, app_id.encode())


def open_log_or_topic(home: DataDir, kafka: KafkaConfig | None) -> AbstractContextManager[LogWriter | TopicWriter]:
    """Return a writer of the topic that takes the place of the log, or else of the log."""
    if kafka is None:
        return open_log(home)
    # Imported here: needs the extra `kafka`.
    from clew.kafka.producer import TopicWriter

    return TopicWriter(kafka, home.create().log)


def open_log(home: DataDir) -> LogWriter:
    """Return a writer of the log of a data directory, which does not use positions again that were ingested."""
    log = home.create().log
    plan = Checkpoint(home.checkpoint).read_plan()
    return LogWriter(log, known_end=0 if plan is None else plan.end)


def _is_offsets(content: bytes) -> bool:
    version, _, rest = content.partition(b"\n")
    metadata, _, offset = rest.partition(b"\n")
    try:
        return version == b"v1" and _is_object(metadata) and _decode_offset(offset).position >= 0
    except msgspec.DecodeError:
        return False


def _is_commit(content: bytes) -> bool:
    version, _, metadata = content.partition(b"\n")
    return version == b"v1" and _is_object(metadata)


def _is_object(content: bytes) -> bool:
    try:
        msgspec.json.decode(content, type=dict[str, Raw])
    except msgspec.DecodeError:
        return False
    return True


_IS_VALID = {_METADATA: _is_object, _OFFSETS: _is_offsets, _COMMITS: _is_commit}


class TopicState(Struct, frozen=True):
    """What the stream knows of its topic: the last offsets, when they were read, and since when no broker answers."""

    brokers: str
    topic: str
    latest: dict[str, int]
    read_at: str
    error: str | None = None


_TOPIC_FILE = "topic.json"
_decode_topic = msgspec.json.Decoder(TopicState).decode


def write_topic_state(checkpoint: Path, state: TopicState) -> None:
    """Write the state of the topic, for the status and the metrics."""
    _write(checkpoint / _TOPIC_FILE, state)


def read_topic_state(checkpoint: Path) -> TopicState | None:
    """Read the state of the topic; None if none was read."""
    try:
        return _decode_topic((checkpoint / _TOPIC_FILE).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


_MAX_BATCHES = 50


class BatchRecord(Struct, frozen=True):
    """An ingested batch: its duration until the commit, its counts, and its end offset in the log."""

    app_id: str
    number: int
    committed_at_ms: int
    seconds: float
    events: int
    rejected: int
    duplicates: int
    rows: dict[str, int]
    end_offset: int
    corrupt_records: int = 0
    # Of the end of the log at that time: another value means that positions were used again.
    log_tail: int | None = None
    # The end offset of a topic.
    source: SourceOffset | None = None


_decode_batches = msgspec.json.Decoder(list[BatchRecord]).decode


def append_batch_record(checkpoint: Path, batch: BatchRecord) -> None:
    """Append a batch and drop the oldest."""
    _write(checkpoint / _HISTORY_FILE, [*read_batch_records(checkpoint), batch][-_MAX_BATCHES:])


def read_batch_records(checkpoint: Path) -> list[BatchRecord]:
    """Read the last batches, newest last."""
    try:
        return _decode_batches((checkpoint / _HISTORY_FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        # Only used for display.
        return []


def forget_log_tails(checkpoint: Path) -> None:
    """Remove the checksums of the log from the batches, because lines of the log are overwritten."""
    records = read_batch_records(checkpoint)
    if any(record.log_tail is not None for record in records):
        _write(checkpoint / _HISTORY_FILE, [msgspec.structs.replace(record, log_tail=None) for record in records])


# Half-open ranges of log offsets.
RawOnlyRanges = tuple[tuple[int, int], ...]

_RANGES_FILE = "raw_only_ranges.json"
_OPEN_END: Final = 2**63 - 1
_decode = msgspec.json.Decoder(RawOnlyRanges).decode


def is_in_ranges(seq: int, ranges: RawOnlyRanges) -> bool:
    """Return whether a position is in one of the ranges."""
    return any(start <= seq < end for start, end in ranges)


def read_ranges(checkpoint: Path) -> RawOnlyRanges:
    """Read the raw-only ranges of a checkpoint folder."""
    try:
        return _decode((checkpoint / _RANGES_FILE).read_bytes())
    except (OSError, msgspec.DecodeError):
        return ()


def update_ranges(checkpoint: Path, position: int, *, is_raw_only: bool) -> RawOnlyRanges:
    """Start or end a raw-only range at `position` and persist the ranges; return all ranges."""
    path, existing = checkpoint / _RANGES_FILE, read_ranges(checkpoint)
    ranges = tuple((start, min(end, position)) for start, end in existing if start < position)
    if is_raw_only:
        ranges = (*ranges, (position, _OPEN_END))
    if ranges != existing:
        _write(path, ranges)
    return ranges


def ranges_after(seq: int, ranges: RawOnlyRanges) -> RawOnlyRanges:
    """Return the parts of the ranges after an event."""
    return tuple((max(start, seq + 1), end) for start, end in ranges if end > seq + 1)


def _write(path: Path, value: object) -> None:
    _write_bytes(path, msgspec.json.encode(value))


# A message of a topic counts as this many bytes of the log: batches, chunks and shares are planned by bytes.
POSITIONS_PER_OFFSET: Final = 4096


def measure_source_lag(home: DataDir, position: int, offset: SourceOffset | None) -> Lag:
    """Measure the distance of a committed position or offset from the end of the log or of the topic."""
    if offset is None or not offset.topic:
        return measure_lag(home.log, position)
    state = read_topic_state(home.checkpoint)
    latest = {} if state is None or state.topic != offset.topic else state.latest
    events = sum(max(0, end - offset.partitions.get(partition, 0)) for partition, end in latest.items())
    size = events * POSITIONS_PER_OFFSET
    return Lag(offset.position, offset.position + size, size, events, is_estimate=events > 0)


def _write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)
