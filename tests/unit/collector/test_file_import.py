"""Files of events into the log, each line once."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import zstandard

from clew.collector.file_import import ImportResult, guess_stream, import_files, import_streams
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import LogRecord, decode_record, segment_path
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


def lines(log: LogWriter) -> list[LogRecord]:
    return [decode_record(text) for text in segment_path(log.folder, 0).read_bytes().splitlines()]


def bodies(log: LogWriter) -> list[bytes]:
    return [line.body for line in lines(log)]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "streams" / "6ac33987" / "marimo_runtime.jsonl"
    path.parent.mkdir(parents=True)
    return path


def add(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("body", "stream"),
    [
        (b'{"event_type": "cell_execution_start"}', Stream.RUNTIME),
        (b'{"event_type": "dataframe_lineage"}', Stream.DATAFRAME),
        (b'{"eventTime": "2026", "event_type": "dataframe_lineage"}', Stream.OPENLINEAGE),
        (b'{"eventTime": null}', Stream.OPENLINEAGE),
        (b'{"event_type": 7}', Stream.OPENLINEAGE),
        (b"{}", Stream.OPENLINEAGE),
        (b"[1]", Stream.OPENLINEAGE),
        (b"words", Stream.OPENLINEAGE),
        (b"\xff", Stream.OPENLINEAGE),
        (b"[" * 10_000, Stream.OPENLINEAGE),
    ],
)
def test_the_shape_tells_the_stream(body: bytes, stream: Stream) -> None:
    assert guess_stream(body) == stream


def test_it_goes_on_where_it_stopped(log: LogWriter, stream: Path) -> None:
    root = stream.parents[1]
    add(stream, b"1\n2\n\n3")
    assert import_streams(root, log) == ImportResult(2, 2)
    assert import_streams(root, log) == ImportResult(0, 0)
    # The half line waits until it is whole.
    add(stream, b"3\n4\n")
    assert import_streams(root, log) == ImportResult(2, 2)
    assert bodies(log) == [b"1", b"2", b"33", b"4"]
    assert {(line.stream, line.source) for line in lines(log)} == {("runtime", "6ac33987/marimo_runtime.jsonl")}


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"6ac33987/marimo_runtime.jsonl": "x"}', None])
def test_a_lost_position_doubles_nothing(log: LogWriter, stream: Path, note: bytes | None) -> None:
    add(stream, b"1\n2\n")
    import_streams(stream.parents[1], log)
    path = log.folder / "intake.json"
    path.unlink() if note is None else path.write_bytes(note)
    add(stream, b"3\n")
    assert import_streams(stream.parents[1], log) == ImportResult(3, 1)
    assert bodies(log) == [b"1", b"2", b"3"]


def test_a_file_that_was_replaced_is_read_from_its_start(log: LogWriter, stream: Path) -> None:
    add(stream, b"1\n2\n3\n")
    import_streams(stream.parents[1], log)
    stream.write_bytes(b"4\n")
    assert import_streams(stream.parents[1], log) == ImportResult(1, 1)
    assert bodies(log) == [b"1", b"2", b"3", b"4"]


def test_all_three_streams_of_all_sessions_are_taken(log: LogWriter, tmp_path: Path) -> None:
    names = ("marimo_runtime.jsonl", "marimo_lineage_events.jsonl", "marimo_dataframe_lineage.jsonl", "notes.txt")
    for session in ("a", "b"):
        (tmp_path / "streams" / session).mkdir(parents=True)
        for name in names:
            add(tmp_path / "streams" / session / name, f'"{session} {name}"\n'.encode())
    assert import_streams(tmp_path / "streams", log) == ImportResult(6, 6)
    assert {line.stream for line in lines(log)} == {"runtime", "openlineage", "dataframe"}


def test_no_streams_are_nothing(log: LogWriter, tmp_path: Path) -> None:
    assert import_streams(tmp_path / "nowhere", log) == ImportResult(0, 0)


def test_files_and_folders_are_taken(log: LogWriter, tmp_path: Path) -> None:
    folder = tmp_path / "kept" / "deeper"
    folder.mkdir(parents=True)
    (folder / "a.ndjson").write_bytes(b'{"eventTime": "1"}\r\n\r\n{"event_type": "cell_execution_end"}')
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"event_type": "dataframe_lineage"}\n'))
    (folder / "ignored.csv").write_bytes(b"a,b\n")
    single = tmp_path / "events.log"
    single.write_bytes(b'{"eventTime": "2"}\n')
    assert import_files([tmp_path / "kept", single], log) == ImportResult(4, 4)
    assert [(line.stream, line.source) for line in lines(log)] == [
        ("openlineage", "a.ndjson"),
        ("runtime", "a.ndjson"),
        ("dataframe", "b.jsonl.gz"),
        ("openlineage", "events.log"),
    ]
    assert b"\r" not in b"".join(bodies(log))
    assert import_files([tmp_path / "kept", single], log) == ImportResult(4, 0)


def test_a_file_of_streams_keeps_its_stream(log: LogWriter, tmp_path: Path) -> None:
    path = tmp_path / "marimo_runtime.jsonl"
    path.write_bytes(b"not json\n")
    import_files([path], log)
    assert [line.stream for line in lines(log)] == ["runtime"]


def test_a_missing_path_is_a_usage_error_and_nothing_is_taken(log: LogWriter, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"1\n")
    with pytest.raises(UsageError, match=r"No such file or folder: .*missing\.ndjson"):
        import_files([path, tmp_path / "missing.ndjson"], log)
    assert bodies(log) == []


EVENTS = b"".join(b"%d\n" % number for number in range(100_000))


def zstd_frames(data: bytes) -> bytes:
    """Two frames, as a file that was appended to has them."""
    half = len(data) // 2
    return b"".join(zstandard.compress(part) for part in (data[:half], data[half:]))


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".zst", zstd_frames)])
def test_archives_hold_what_they_were_made_of(
    log: LogWriter, tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"marimo_runtime.jsonl{suffix}"
    path.write_bytes(pack(EVENTS))
    told: list[tuple[int, int, int]] = []
    assert import_files([tmp_path], log, lambda *numbers: told.append(numbers)) == ImportResult(100_000, 100_000)
    assert bodies(log) == EVENTS.splitlines()
    assert {line.stream for line in lines(log)} == {"runtime"}
    assert told[-1] == (path.stat().st_size, path.stat().st_size, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd_frames)])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-12], lambda _: b"plain text", lambda data: data[:20] + b"\x00" * 30]
)
def test_a_damaged_archive_is_a_sentence(
    log: LogWriter, tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.ndjson{suffix}"
    path.write_bytes(damage(pack(EVENTS)))
    with pytest.raises(
        ClewError, match=rf"Cannot read .*a\.ndjson{suffix}: .*\. Events read before the error: [\d,]+\."
    ) as told:
        import_files([path], log)
    stored = bodies(log)
    assert stored == EVENTS.splitlines()[: len(stored)]
    assert f"Events read before the error: {len(stored):,}." in told.value.message


class CountingLog(LogWriter):
    """A log that notes how many events come at a time."""

    def append(self, events: Iterable[IncomingEvent]) -> int:
        counted = list(events)
        self.counts = [*getattr(self, "counts", []), len(counted)]
        return super().append(counted)


def test_large_events_are_appended_in_small_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"".join(b'"%d%s"\n' % (number, b"x" * 3_000_000) for number in range(4)))
    with CountingLog(tmp_path / "log") as log:
        import_files([path], log)
    assert log.counts == [2, 2]
