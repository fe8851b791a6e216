"""Tests of the import of event objects from a bucket."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import obstore
import pytest
import zstandard

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.lake.providers import open_bucket
from clew.pipeline.sources.object_import import ObjectImporter


def event(number: int) -> bytes:
    run = {"runId": f"00000000-0000-0000-0000-{number:012}"}
    time = "2026-01-01T10:00:00Z"
    return json.dumps({"eventTime": time, "run": run, "job": {"namespace": "n", "name": "j"}}).encode()


def put(bucket: BucketUrl, name: str, content: bytes) -> None:
    obstore.put(open_bucket(bucket.root), f"{bucket.key}/{name}", content)


def read_log(folder: Path) -> list[tuple[str, bytes]]:
    end = end_position(folder)
    lines = (line for part in split_ranges(folder, 0, end, end or 1) for _, line in read_lines(part))
    return [(record.source, record.body) for record in map(decode_record, lines)]


def import_objects(bucket: BucketUrl, folder: Path) -> int:
    with LogWriter(folder) as log, ObjectImporter([bucket], log) as importer:
        return importer.import_all().stored


def test_formats(bucket: BucketUrl, tmp_path: Path) -> None:
    put(bucket, "2026/01/a.ndjson", event(1) + b"\n" + event(2) + b"\n")
    put(bucket, "one.json", json.dumps(json.loads(event(3)), indent=2).encode())
    put(bucket, "list", b"[%s, %s]" % (event(4), event(5)))
    put(bucket, "zipped.json.gz", gzip.compress(event(6)))
    put(bucket, "event_2026-01-01T00:00:00.123Z", zstandard.compress(event(7)))
    for name in ("_SUCCESS", "part.parquet", ".hidden/a.json.crc", "x/_tmp"):
        put(bucket, name, b"no events")
    put(bucket, "empty.json", b"")
    assert import_objects(bucket, tmp_path) == 7
    sources = dict.fromkeys(source for source, _ in read_log(tmp_path))
    assert next(iter(sources)) == f"s3://{bucket.bucket}/{bucket.key}/2026/01/a.ndjson"
    assert len(sources) == 5
    runs = [json.loads(body)["run"]["runId"][-1] for _, body in read_log(tmp_path)]
    # Objects of the same second are in the order of their keys.
    assert sorted(runs) == list("1234567")
    assert runs.index("1") < runs.index("2")


def test_objects_are_read_once(bucket: BucketUrl, tmp_path: Path) -> None:
    put(bucket, "a.json", event(1))
    assert import_objects(bucket, tmp_path) == 1
    assert import_objects(bucket, tmp_path) == 0
    put(bucket, "0.json", event(2))
    # Overwritten: read again; the known event is a duplicate.
    put(bucket, "a.json", event(1) + b"\n" + event(3))
    assert import_objects(bucket, tmp_path) == 2
    assert import_objects(bucket / "missing", tmp_path) == 0


def test_single_object(bucket: BucketUrl, tmp_path: Path) -> None:
    put(bucket, "a.json", event(1))
    put(bucket, "b.json", event(2))
    assert import_objects(bucket / "a.json", tmp_path) == 1


def test_damaged_object(bucket: BucketUrl, tmp_path: Path) -> None:
    put(bucket, "a.ndjson.gz", gzip.compress(event(1) + b"\n" + event(2) * 100)[:-20])
    put(bucket, "b.json", event(3))
    with pytest.raises(ClewError, match=r"Cannot read s3://.*/a.ndjson.gz"):
        import_objects(bucket, tmp_path)
    assert event(3) in [body for _, body in read_log(tmp_path)]
    put(bucket, "a.ndjson.gz", gzip.compress(event(2)))
    import_objects(bucket, tmp_path)
    assert event(2) in [body for _, body in read_log(tmp_path)]


class FailingLog:
    """Log that fails after a number of appends, as after a kill."""

    def __init__(self, log: LogWriter, appends: int) -> None:
        self.folder = log.folder
        self._log = log
        self._appends = appends

    def append(self, events: Iterable[IncomingEvent]) -> int:
        stored = self._log.append(events)
        self._appends -= 1
        if not self._appends:
            raise KeyboardInterrupt
        return stored


def test_interrupted_import(bucket: BucketUrl, tmp_path: Path) -> None:
    for number in range(3):
        put(bucket, f"{number}.json", event(number))
    with (
        pytest.raises(KeyboardInterrupt),
        LogWriter(tmp_path) as log,
        ObjectImporter([bucket], FailingLog(log, 2)) as importer,
    ):
        importer.import_all()
    assert import_objects(bucket, tmp_path) == 1
    assert [body for _, body in read_log(tmp_path)] == [event(number) for number in range(3)]


def test_poll(bucket: BucketUrl, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(bucket, "a.json", event(1))
    put(bucket, "b.gz", b"\x1f\x8bno gzip")
    with LogWriter(tmp_path) as log, ObjectImporter([bucket], log) as importer:
        importer.poll()
        assert "Cannot read" in caplog.text
        put(bucket, "c.json", event(2))
        # Not due yet.
        importer.poll()
        assert len(read_log(tmp_path)) == 1


@pytest.mark.usefixtures("bucket")
def test_missing_bucket(tmp_path: Path) -> None:
    message = "The prefix s3://missing/prefix cannot be used: the bucket does not exist"
    missing = BucketUrl("s3://missing/prefix")
    with (
        LogWriter(tmp_path) as log,
        ObjectImporter([missing], log) as importer,
        pytest.raises(ClewError, match=message),
    ):
        importer.check()
