"""A folder and a place in a bucket: what one does with files, the other does."""

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
from clew.lake import s3 as buckets
from clew.lake.data_files import FileWriter
from clew.lake.history import count_pending_backfill
from clew.lake.lake import BatchId, Lake
from clew.lake.manifest import check_integrity
from clew.lake.s3 import S3Storage, translate_s3_errors
from clew.lake.schemas import LARGE_COLUMNS, REJECTED_EVENTS
from clew.lake.storage import LocalStorage, Storage, open_parquet, open_s3_storage, open_storage, table_names

ROWS = pa.table({"seq": [1, 2, 3], "name": ["a", "b", None]})


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> LakeLocation:
    found: LakeLocation = tmp_path / "lake" if request.param == "folder" else request.getfixturevalue("bucket")
    return found


def write(where: Any) -> None:
    pq.write_table(ROWS, where)


def test_it_is_known_by_its_path_or_url(place: LakeLocation) -> None:
    kind = LocalStorage if isinstance(place, Path) else S3Storage
    assert isinstance(open_storage(place), kind)
    assert open_storage(str(place)) is open_storage(place)
    assert open_storage(place).is_local == isinstance(place, Path)


def test_files_are_written_read_listed_and_removed(place: LakeLocation) -> None:
    storage = open_storage(place)
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
    assert open_storage(place / ".reports").read("one") == b"1"
    assert [(entry.name, entry.size) for entry in storage.list_files()] == [("a", 6)]
    assert all(abs(entry.written_at - time.time()) < 600 for entry in storage.list_files())
    assert storage.list_folders() == [".reports"]
    assert (storage.has_folder(), storage.has_folder(".reports"), storage.has_folder("b")) == (True, True, False)
    assert list(storage.map_concurrently(storage.read, ["a", "b"])) == [b"second", None]
    storage.remove("a")
    storage.remove("a")
    assert storage.read("a") is None


def test_parquet_is_written_and_read_back(place: LakeLocation) -> None:
    storage = open_storage(place)
    size = storage.write_parquet("t/x.parquet", write)
    assert [entry.size for entry in open_storage(place / "t").list_files()] == [size]
    assert pq.read_table(storage.parquet_source("t/x.parquet"), partitioning=None) == ROWS
    assert pq.read_metadata(open_parquet(str(place / "t" / "x.parquet"))).num_rows == 3
    open_storage(place / "t").write_parquet("y.parquet", write)
    both = open_storage(place / "t").dataset(["x.parquet", "y.parquet"], ROWS.schema)
    assert both.to_table(columns=["seq"], filter=pc.field("name") == "b")["seq"].to_pylist() == [2, 2]


def test_parquet_that_fails_leaves_nothing(place: LakeLocation) -> None:
    def fail(where: Any) -> None:
        write(where)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        open_storage(place).write_parquet("t/x.parquet", fail)
    assert list(open_storage(place / "t").list_files()) == []


def test_a_lake_is_made_filled_and_whole(place: LakeLocation) -> None:
    lake = Lake(place)
    lake.create_or_validate()
    writer = FileWriter(str(place), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
    for number in (0, 0, 1):
        files = [*writer.add({REJECTED_EVENTS.name: row}), *writer.flush()]
        if not lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, BatchId("app", number)):
            lake.delete_uncommitted(files)
    check_integrity(place)
    assert Lake(place).row_counts()[REJECTED_EVENTS.name] == 2
    assert {path.rpartition("/")[0] for path in lake.files(REJECTED_EVENTS.name)} == {str(place / REJECTED_EVENTS.name)}
    assert len([one for one in open_storage(place / REJECTED_EVENTS.name).list_files() if "part-" in one.name]) == 2
    assert REJECTED_EVENTS.name in table_names(place)
    assert count_pending_backfill(place) == 0
    open_storage(place / REJECTED_EVENTS.name).remove(lake.files(REJECTED_EVENTS.name)[0].rpartition("/")[2])
    with pytest.raises(ClewError, match="lacks 1 of its 2 files"):
        check_integrity(place)


def test_a_table_that_is_gone_is_missed(place: LakeLocation) -> None:
    Lake(place).create_or_validate()
    # In a bucket there is no folder without something in it.
    commits = open_storage(place / REJECTED_EVENTS.name / "_delta_log")
    for entry in list(commits.list_files()):
        commits.remove(entry.name)
    with pytest.raises(ClewError, match=r"rejected_events cannot be read|has no table rejected_events"):
        check_integrity(place)


def test_an_object_is_made_once_and_exchanged_only_if_unchanged(bucket: BucketUrl) -> None:
    objects = open_s3_storage(bucket)
    first = objects.put_if_absent("one", b"1")
    assert first is not None
    assert objects.put_if_absent("one", b"2") is None
    second = objects.put_if_match("one", b"2", first)
    assert second is not None
    assert objects.put_if_match("one", b"3", first) is None
    found = objects.get_object("one")
    assert found is not None
    assert (found.content, found.etag) == (b"2", second)
    assert objects.put_if_match("none", b"", first) is None


def test_two_who_commit_at_once_do_not_overwrite_each_other(bucket: BucketUrl) -> None:
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
    ("said", "sentence"),
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
def test_what_is_wrong_with_a_bucket_is_a_sentence(said: str, sentence: str) -> None:
    wanted = rf"The lake s3://b/l cannot be used: .*{sentence}"
    with pytest.raises(ClewError, match=wanted), translate_s3_errors(BucketUrl("s3://b/l")):
        raise OSError(f"Generic S3 error: {said}")


def test_faults_that_are_not_the_buckets_stay_as_they_are() -> None:
    with pytest.raises(BrokenPipeError), translate_s3_errors(BucketUrl("s3://b/l")):
        raise BrokenPipeError


USES: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("manifest.json"),
    "write": lambda storage: storage.add("a", b""),
    "list": lambda storage: storage.list_files(),
    "look for": lambda storage: storage.has_folder(),
    "open": lambda storage: storage.open_table("runs"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_bucket_that_is_not_there(use: Callable[[Storage], object], bucket: BucketUrl) -> None:
    with pytest.raises(ClewError, match="the bucket does not exist"):
        use(open_storage(f"s3://not-{bucket.bucket}/lake"))


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(buckets, "_MAX_RETRIES", 1)
    with pytest.raises(ClewError, match="the object store cannot be reached"):
        open_storage("s3://nobody-answers/lake").read("manifest.json")


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "clew.lake.s3")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clew\[s3\]'"):
        open_s3_storage(BucketUrl("s3://b/l"))
