"""Tests of file import: each line is appended to the log once."""

from __future__ import annotations

import gzip
import json
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


def read_records(log: LogWriter) -> list[LogRecord]:
    return [decode_record(text) for text in segment_path(log.folder, 0).read_bytes().splitlines()]


def read_bodies(log: LogWriter) -> list[bytes]:
    return [record.body for record in read_records(log)]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "streams" / "6ac33987" / "marimo_runtime.jsonl"
    path.parent.mkdir(parents=True)
    return path


def append_text(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.mark.parametrize(
    "text",
    [
        b'[{"a": 1}, {"a": "]}"}]',
        b'{"a": 1}\n{"a": "]}"}',
        b'[\n  {"a": 1},\n  {"a": "]}"}\n]',
        b'{\n"a": 1\n}\n{\n"a": "]}"\n}\n',
        b'{"a":\n1} {"a": "]}"}',
    ],
)
def test_reads_lists_and_objects_on_several_lines(text: bytes, log: LogWriter, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(text)
    assert import_files([file], log) == ImportResult(2, 2)
    assert [json.loads(body) for body in read_bodies(log)] == [{"a": 1}, {"a": "]}"}]


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        (b'[{"a": 1}, 7, "x"]', [b'{"a": 1}', b'7, "x"']),
        (b'{\n"a": 1,\n}\n{"b": 2}', [b'{\n"a": 1,\n}', b'{"b": 2}']),
        (b'[{"a": 1}, {"b"', [b'{"a": 1}', b'{"b"']),
        (b'{\n"a": 1\n}}\n', [b'{ "a": 1 }', b"}"]),
    ],
)
def test_text_that_is_no_event_is_stored_too(text: bytes, bodies: list[bytes], log: LogWriter, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    file.write_bytes(text)
    import_files([file], log)
    assert read_bodies(log) == bodies


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
def test_guesses_the_stream_from_the_fields(body: bytes, stream: Stream) -> None:
    assert guess_stream(body) == stream


def test_resumes_at_the_saved_position(log: LogWriter, stream: Path) -> None:
    root = stream.parents[1]
    append_text(stream, b"1\n2\n\n3")
    assert import_streams(root, log) == ImportResult(2, 2)
    assert import_streams(root, log) == ImportResult(0, 0)
    # An incomplete line is not imported until it is complete.
    append_text(stream, b"3\n4\n")
    assert import_streams(root, log) == ImportResult(2, 2)
    assert read_bodies(log) == [b"1", b"2", b"33", b"4"]
    assert {(record.stream, record.source) for record in read_records(log)} == {
        ("runtime", "6ac33987/marimo_runtime.jsonl")
    }


@pytest.mark.parametrize("positions", [b"", b"{", b"[]", b'{"6ac33987/marimo_runtime.jsonl": "x"}', None])
def test_a_lost_position_stores_no_duplicates(log: LogWriter, stream: Path, positions: bytes | None) -> None:
    append_text(stream, b"1\n2\n")
    import_streams(stream.parents[1], log)
    path = log.folder / "intake.json"
    path.unlink() if positions is None else path.write_bytes(positions)
    append_text(stream, b"3\n")
    assert import_streams(stream.parents[1], log) == ImportResult(3, 1)
    assert read_bodies(log) == [b"1", b"2", b"3"]


def test_reads_a_replaced_file_from_its_start(log: LogWriter, stream: Path) -> None:
    append_text(stream, b"1\n2\n3\n")
    import_streams(stream.parents[1], log)
    stream.write_bytes(b"4\n")
    assert import_streams(stream.parents[1], log) == ImportResult(1, 1)
    assert read_bodies(log) == [b"1", b"2", b"3", b"4"]


def test_imports_all_streams_of_all_sessions(log: LogWriter, tmp_path: Path) -> None:
    names = ("marimo_runtime.jsonl", "marimo_lineage_events.jsonl", "marimo_dataframe_lineage.jsonl", "notes.txt")
    for session in ("a", "b"):
        (tmp_path / "streams" / session).mkdir(parents=True)
        for name in names:
            append_text(tmp_path / "streams" / session / name, f'"{session} {name}"\n'.encode())
    assert import_streams(tmp_path / "streams", log) == ImportResult(6, 6)
    assert {record.stream for record in read_records(log)} == {"runtime", "openlineage", "dataframe"}


def test_imports_nothing_from_a_missing_folder(log: LogWriter, tmp_path: Path) -> None:
    assert import_streams(tmp_path / "nowhere", log) == ImportResult(0, 0)


def test_imports_files_and_folders(log: LogWriter, tmp_path: Path) -> None:
    folder = tmp_path / "archive" / "deeper"
    folder.mkdir(parents=True)
    (folder / "a.ndjson").write_bytes(b'{"eventTime": "1"}\r\n\r\n{"event_type": "cell_execution_end"}')
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"event_type": "dataframe_lineage"}\n'))
    (folder / "ignored.csv").write_bytes(b"a,b\n")
    single = tmp_path / "events.log"
    single.write_bytes(b'{"eventTime": "2"}\n')
    assert import_files([tmp_path / "archive", single], log) == ImportResult(4, 4)
    assert [(record.stream, record.source) for record in read_records(log)] == [
        ("openlineage", "a.ndjson"),
        ("runtime", "a.ndjson"),
        ("dataframe", "b.jsonl.gz"),
        ("openlineage", "events.log"),
    ]
    assert b"\r" not in b"".join(read_bodies(log))
    assert import_files([tmp_path / "archive", single], log) == ImportResult(4, 0)


def test_the_file_name_determines_the_stream(log: LogWriter, tmp_path: Path) -> None:
    path = tmp_path / "marimo_runtime.jsonl"
    path.write_bytes(b"not json\n")
    import_files([path], log)
    assert [record.stream for record in read_records(log)] == ["runtime"]


def test_a_missing_path_is_a_usage_error(log: LogWriter, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"1\n")
    with pytest.raises(UsageError, match=r"No such file or folder: .*missing\.ndjson"):
        import_files([path, tmp_path / "missing.ndjson"], log)
    assert read_bodies(log) == []


EVENTS = b"".join(b"%d\n" % number for number in range(100_000))


def zstd_frames(data: bytes) -> bytes:
    """Compress data as two frames, like a file that was appended to."""
    half = len(data) // 2
    return b"".join(zstandard.compress(half_data) for half_data in (data[:half], data[half:]))


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".zst", zstd_frames)])
def test_imports_compressed_files(
    log: LogWriter, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"marimo_runtime.jsonl{suffix}"
    path.write_bytes(compress(EVENTS))
    progress: list[tuple[int, int, int]] = []
    assert import_files([tmp_path], log, lambda *numbers: progress.append(numbers)) == ImportResult(100_000, 100_000)
    assert read_bodies(log) == EVENTS.splitlines()
    assert {record.stream for record in read_records(log)} == {"runtime"}
    assert progress[-1] == (path.stat().st_size, path.stat().st_size, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".zst", zstd_frames)])
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-12], lambda _: b"plain text", lambda data: data[:20] + b"\x00" * 30]
)
def test_reports_a_damaged_archive(
    log: LogWriter, tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.ndjson{suffix}"
    path.write_bytes(damage(compress(EVENTS)))
    with pytest.raises(
        ClewError, match=rf"Cannot read .*a\.ndjson{suffix}: .*\. Events read before the error: [\d,]+\."
    ) as raised:
        import_files([path], log)
    stored = read_bodies(log)
    assert stored == EVENTS.splitlines()[: len(stored)]
    assert f"Events read before the error: {len(stored):,}." in raised.value.message


class CountingLog(LogWriter):
    """Log that records the number of events per append."""

    def append(self, events: Iterable[IncomingEvent]) -> int:
        batch = list(events)
        self.counts = [*getattr(self, "counts", []), len(batch)]
        return super().append(batch)


def test_large_events_are_appended_in_small_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"".join(b'"%d%s"\n' % (number, b"x" * 3_000_000) for number in range(4)))
    with CountingLog(tmp_path / "log") as log:
        import_files([path], log)
    assert log.counts == [2, 2]


@pytest.mark.parametrize("name", [b'"notes"', b'"n\\u006ftes"'])
def test_does_not_import_annotations(name: bytes, log: LogWriter, tmp_path: Path) -> None:
    start = b'{"eventTime": "2026-01-01T10:00:00Z", "dataset": {"namespace": "clew", "name": '
    planted, other = start + name + b"}}", start + b'"other"}}'
    file, stream = tmp_path / "events.ndjson", tmp_path / "streams" / "5eed" / "marimo_lineage_events.jsonl"
    stream.parent.mkdir(parents=True)
    for path in (file, stream):
        path.write_bytes(planted + b"\n" + other + b"\n")
    assert import_files([file], log) == ImportResult(2, 1)
    assert import_streams(stream.parents[1], log) == ImportResult(2, 0)
    assert read_bodies(log) == [other]
