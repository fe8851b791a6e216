"""Tests of storage: local folders and S3 behave alike."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from clew.data_dir import BucketUrl, LakeLocation
from clew.errors import ClewError, MissingExtraError
from clew.lake import providers
from clew.lake.bucket import BucketStorage, translate_bucket_errors
from clew.lake.data_files import FileWriter
from clew.lake.history import count_pending_backfill
from clew.lake.lake import BatchId, Lake
from clew.lake.manifest import check_integrity
from clew.lake.schemas import LARGE_COLUMNS, REJECTED_EVENTS
from clew.lake.storage import LocalStorage, Storage, open_bucket_storage, open_parquet, open_storage, table_names

ROWS = pa.table({"seq": [1, 2, 3], "name": ["a", "b", None]})


@pytest.fixture(params=["folder", "bucket"])
def lake_location(request: pytest.FixtureRequest, tmp_path: Path) -> LakeLocation:
    location: LakeLocation = tmp_path / "lake" if request.param == "folder" else request.getfixturevalue("bucket")
    return location


def write(target: Any) -> None:
    pq.write_table(ROWS, target)


def test_open_storage_selects_the_class_by_location(lake_location: LakeLocation) -> None:
    kind = LocalStorage if isinstance(lake_location, Path) else BucketStorage
    assert isinstance(open_storage(lake_location), kind)
    assert open_storage(str(lake_location)) is open_storage(lake_location)
    assert open_storage(lake_location).is_local == isinstance(lake_location, Path)


def test_write_read_list_and_remove_files(lake_location: LakeLocation) -> None:
    storage = open_storage(lake_location)
    assert (storage.read("a"), list(storage.list_files()), storage.list_folders(), storage.has_folder()) == (
        None,
        [],
        [],
        False,
    )
    storage.create()
    storage.add(".reports/one", b"1")
    storage.replace("a", b"first")
    storage.replace("a", b"second")
    assert storage.read("a") == b"second"
    assert open_storage(lake_location / ".reports").read("one") == b"1"
    assert [(entry.name, entry.size) for entry in storage.list_files()] == [("a", 6)]
    assert all(abs(entry.written_at - time.time()) < 600 for entry in storage.list_files())
    assert storage.list_folders() == [".reports"]
    assert (storage.has_folder(), storage.has_folder(".reports"), storage.has_folder("b")) == (True, True, False)
    assert list(storage.map_concurrently(storage.read, ["a", "b"])) == [b"second", None]
    storage.remove("a")
    storage.remove("a")
    assert storage.read("a") is None


def test_write_and_read_parquet(lake_location: LakeLocation) -> None:
    storage = open_storage(lake_location)
    size = storage.write_parquet("t/x.parquet", write)
    assert [entry.size for entry in open_storage(lake_location / "t").list_files()] == [size]
    assert pq.read_table(storage.parquet_source("t/x.parquet"), partitioning=None) == ROWS
    assert pq.read_metadata(open_parquet(str(lake_location / "t" / "x.parquet"))).num_rows == 3
    open_storage(lake_location / "t").write_parquet("y.parquet", write)
    both = open_storage(lake_location / "t").dataset(["x.parquet", "y.parquet"], ROWS.schema)
    assert both.to_table(columns=["seq"], filter=pc.field("name") == "b")["seq"].to_pylist() == [2, 2]


def test_failed_parquet_write_leaves_no_file(lake_location: LakeLocation) -> None:
    def fail(target: Any) -> None:
        write(target)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        open_storage(lake_location).write_parquet("t/x.parquet", fail)
    assert list(open_storage(lake_location / "t").list_files()) == []


def test_lake_in_storage_passes_the_integrity_check(lake_location: LakeLocation) -> None:
    lake = Lake(lake_location)
    lake.create_or_validate()
    writer = FileWriter(str(lake_location), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
    for number in (0, 0, 1):
        files = [*writer.add({REJECTED_EVENTS.name: row}), *writer.flush()]
        if not lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, BatchId("app", number)):
            lake.delete_uncommitted(files)
    check_integrity(lake_location)
    assert Lake(lake_location).row_counts()[REJECTED_EVENTS.name] == 2
    assert {path.rpartition("/")[0] for path in lake.files(REJECTED_EVENTS.name)} == {
        str(lake_location / REJECTED_EVENTS.name)
    }
    assert (
        len(
            [
                entry
                for entry in open_storage(lake_location / REJECTED_EVENTS.name).list_files()
                if "part-" in entry.name
            ]
        )
        == 2
    )
    assert REJECTED_EVENTS.name in table_names(lake_location)
    assert count_pending_backfill(lake_location) == 0
    open_storage(lake_location / REJECTED_EVENTS.name).remove(lake.files(REJECTED_EVENTS.name)[0].rpartition("/")[2])
    with pytest.raises(ClewError, match="lacks 1 of its 2 files"):
        check_integrity(lake_location)


def test_integrity_check_reports_a_missing_table(lake_location: LakeLocation) -> None:
    Lake(lake_location).create_or_validate()
    # A bucket has no empty folders.
    commits = open_storage(lake_location / REJECTED_EVENTS.name / "_delta_log")
    for entry in list(commits.list_files()):
        commits.remove(entry.name)
    with pytest.raises(ClewError, match=r"rejected_events cannot be read|has no table rejected_events"):
        check_integrity(lake_location)


def test_conditional_puts(bucket: BucketUrl) -> None:
    objects = open_bucket_storage(bucket)
    first = objects.put_if_absent("one", b"1")
    assert first is not None
    assert objects.put_if_absent("one", b"2") is None
    second = objects.put_if_match("one", b"2", first)
    assert second is not None
    assert objects.put_if_match("one", b"3", first) is None
    stored = objects.get_object("one")
    assert stored is not None
    assert (stored.content, stored.etag) == (b"2", second)
    assert objects.put_if_match("none", b"", first) is None


def test_concurrent_commits_are_not_lost(bucket: BucketUrl) -> None:
    Lake(bucket).create_or_validate()
    writer = FileWriter(str(bucket), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
    lakes = [Lake(bucket) for _ in range(3)]
    for lake in lakes:
        lake.table(REJECTED_EVENTS.name)
    for number, lake in enumerate(lakes):
        files = [*writer.add({REJECTED_EVENTS.name: row}), *writer.flush()]
        lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, BatchId(f"app-{number}", 0))
    assert Lake(bucket).row_counts()[REJECTED_EVENTS.name] == 3


@pytest.mark.parametrize(
    ("error_text", "message"),
    [
        ("<Code>NoSuchBucket</Code>", "the bucket does not exist"),
        ("Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>", "access was denied"),
        ("<Code>InvalidAccessKeyId</Code> 403", "the credentials were rejected"),
        ("Error performing PUT http://169.254.169.254/latest/api/token", "no credentials were found"),
        ("HTTP error: builder error ... BadScheme", "its endpoint uses http, which is not allowed"),
        ("301 Moved Permanently", "the bucket is in another region"),
        ("501 Not Implemented", "does not support conditional puts"),
        ("error sending request: tcp connect error", "the object store cannot be reached"),
        ("Something else.\nand more", r"Generic S3 error: Something else\."),
    ],
)
def test_s3_errors_are_translated(error_text: str, message: str) -> None:
    expected = rf"The lake s3://b/l cannot be used: .*{message}"
    with pytest.raises(ClewError, match=expected), translate_bucket_errors(BucketUrl("s3://b/l")):
        raise OSError(f"Generic S3 error: {error_text}")


def test_other_errors_are_not_translated() -> None:
    with pytest.raises(BrokenPipeError), translate_bucket_errors(BucketUrl("s3://b/l")):
        raise BrokenPipeError


OPERATIONS: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("manifest.json"),
    "write": lambda storage: storage.add("a", b""),
    "list": lambda storage: storage.list_files(),
    "has_folder": lambda storage: storage.has_folder(),
    "open": lambda storage: storage.open_table("runs"),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_missing_bucket_error(operation: Callable[[Storage], object], bucket: BucketUrl) -> None:
    with pytest.raises(ClewError, match="the bucket does not exist"):
        operation(open_storage(f"s3://not-{bucket.bucket}/lake"))


def test_unreachable_object_store_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(providers, "_MAX_RETRIES", 1)
    with pytest.raises(ClewError, match="the object store cannot be reached"):
        open_storage("s3://nobody-answers/lake").read("manifest.json")


def test_missing_extra_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "clew.lake.bucket")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clew\[s3\]'"):
        open_bucket_storage(BucketUrl("s3://b/l"))


@pytest.mark.parametrize("bucket", ["azurite"], indirect=True)
def test_wrong_credentials_of_azure(bucket: BucketUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmcga2V5")
    other = BucketUrl(f"az://{bucket.bucket[:30]}/lake")
    for operation in OPERATIONS.values():
        with pytest.raises(ClewError, match=r"access was denied.*\n.*Check the account and its key"):
            operation(open_storage(other))


@pytest.mark.parametrize("bucket", ["azurite"], indirect=True)
def test_missing_container_of_azure(bucket: BucketUrl) -> None:
    for operation in OPERATIONS.values():
        with pytest.raises(ClewError, match="the bucket does not exist"):
            operation(open_storage(f"az://missing-{bucket.bucket[:30]}/lake"))
