"""Tests of event files as source of an import."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.importer.event_files import read_annotation_files
from clew.importer.importer import ImportContext, ImportSummary, import_event_files
from clew.lake.providers import open_bucket


def import_into(folder: Path, *locations: str) -> ImportSummary:
    return import_event_files(ImportContext(DataDir(folder), has_ingestion=False), locations)


def bodies(folder: Path) -> list[bytes]:
    log = DataDir(folder).log
    ranges = split_ranges(log, 0, end_position(log), 1 << 30)
    return [decode_record(text).body for part in ranges for _, text in read_lines(part)]


def test_all_formats_are_read(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.ndjson").write_bytes(b'{"a": 0}\n{"a": 1}\n')
    (files / "b.jsonl.gz").write_bytes(gzip.compress(b'{"a": 2}\n'))
    (files / "c.ndjson.zst").write_bytes(zstandard.compress(b'{"a": 3}\n'))
    (tmp_path / "d.json").write_bytes(b'[{"a": 4}, {"a": 5}]')
    result = import_into(tmp_path / "home", str(tmp_path / "d.json"), str(files))
    assert (result.events, result.bytes) == (6, 6 * 8)
    assert sorted(bodies(tmp_path / "home")) == [b'{"a": %d}' % number for number in range(6)]


def test_a_damaged_archive_is_imported_up_to_the_damage(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson.gz"
    lines = b"".join(
        b'{"a": %d, "text": "%s"}\n' % (number, bytes(str(number**50), "ascii")) for number in range(5_000)
    )
    file.write_bytes(gzip.compress(lines)[:-1_000])
    with pytest.raises(ClewError, match="Events read before the error"):
        import_into(tmp_path / "home", str(file))
    assert bodies(tmp_path / "home")[0].startswith(b'{"a": 0')


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file or folder"):
        import_into(tmp_path / "home", str(tmp_path / "missing.ndjson"))


def test_events_with_reserved_names_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    event = {"eventTime": "2024-01-01T00:00:00Z", "dataset": {"namespace": "clew", "name": "notes"}}
    file.write_text(json.dumps(event))
    assert import_into(tmp_path / "home", str(file)).reserved_names == 1
    assert bodies(tmp_path / "home") == []


def test_annotations_are_read_from_a_folder_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "annotations.json"
    file.write_text('{"clew_annotation[\\"tag\\",\\"PII\\"]": {"annotation": {}}}')
    expected = [('clew_annotation["tag","PII"]', b'{"annotation": {}}')]
    assert read_annotation_files([str(tmp_path)]) == read_annotation_files([str(file)]) == expected
    file.write_text("[")
    with pytest.raises(ClewError, match="Cannot read the annotations"):
        read_annotation_files([str(file)])


def test_objects_of_a_bucket_are_read(bucket: BucketUrl, tmp_path: Path) -> None:
    for name, content in {
        "in/a.ndjson": b'{"a": 0}\n',
        "in/deep/b.ndjson.gz": gzip.compress(b'{"a": 1}\n'),
        "in/other.csv": b"x",
        "one.json": b'[{"a": 2}]',
    }.items():
        open_bucket(bucket.root).put(name, content)
    result = import_into(tmp_path / "home", f"s3://{bucket.bucket}/in", f"s3://{bucket.bucket}/one.json")
    assert result.events == 3
    assert [json.loads(body)["a"] for body in bodies(tmp_path / "home")] == [0, 1, 2]
    with pytest.raises(UsageError, match="No event file at s3://"):
        import_into(tmp_path / "home", f"s3://{bucket.bucket}/missing")
