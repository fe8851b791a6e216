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

from clew.errors import ClewError, MissingExtraError
from clew.home import BucketUrl, LakePlace
from clew.lake import bucket as buckets
from clew.lake.bucket import Bucket
from clew.lake.bucket_faults import told_of_bucket
from clew.lake.delta import Batch, Lake
from clew.lake.files import FileWriter
from clew.lake.soundness import require_sound_lake
from clew.lake.storage import Folder, Storage, bucket_at, parquet_at, storage_at, table_names
from clew.lake.tables import LARGE_COLUMNS, REJECTED_EVENTS
from clew.lake.unfilled import unfilled_count

ROWS = pa.table({"seq": [1, 2, 3], "name": ["a", "b", None]})


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> LakePlace:
    found: LakePlace = tmp_path / "lake" if request.param == "folder" else request.getfixturevalue("bucket")
    return found


def write(where: Any) -> None:
    pq.write_table(ROWS, where)


def test_it_is_known_by_its_path_or_url(place: LakePlace) -> None:
    kind = Folder if isinstance(place, Path) else Bucket
    assert isinstance(storage_at(place), kind)
    assert storage_at(str(place)) is storage_at(place)
    assert storage_at(place).is_local == isinstance(place, Path)


def test_files_are_written_read_listed_and_removed(place: LakePlace) -> None:
    storage = storage_at(place)
    assert (storage.read("a"), list(storage.entries()), storage.folders(), storage.has_folder()) == (
        None,
        [],
        [],
        False,
    )
    storage.make()
    storage.add(".reports/one", b"1")
    storage.replace("a", b"first")
    storage.replace("a", b"second")
    assert storage.read("a") == b"second"
    assert storage_at(place / ".reports").read("one") == b"1"
    assert [(entry.name, entry.size) for entry in storage.entries()] == [("a", 6)]
    assert all(abs(entry.written_at - time.time()) < 600 for entry in storage.entries())
    assert storage.folders() == [".reports"]
    assert (storage.has_folder(), storage.has_folder(".reports"), storage.has_folder("b")) == (True, True, False)
    assert list(storage.look_at_all(storage.read, ["a", "b"])) == [b"second", None]
    storage.remove("a")
    storage.remove("a")
    assert storage.read("a") is None


def test_parquet_is_written_and_read_back(place: LakePlace) -> None:
    storage = storage_at(place)
    size = storage.write_parquet("t/x.parquet", write)
    assert [entry.size for entry in storage_at(place / "t").entries()] == [size]
    assert pq.read_table(storage.parquet("t/x.parquet"), partitioning=None) == ROWS
    assert pq.read_metadata(parquet_at(str(place / "t" / "x.parquet"))).num_rows == 3
    storage_at(place / "t").write_parquet("y.parquet", write)
    both = storage_at(place / "t").dataset(["x.parquet", "y.parquet"], ROWS.schema)
    assert both.to_table(columns=["seq"], filter=pc.field("name") == "b")["seq"].to_pylist() == [2, 2]


def test_parquet_that_fails_leaves_nothing(place: LakePlace) -> None:
    def fail(where: Any) -> None:
        write(where)
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        storage_at(place).write_parquet("t/x.parquet", fail)
    assert list(storage_at(place / "t").entries()) == []


def test_a_lake_is_made_filled_and_whole(place: LakePlace) -> None:
    lake = Lake(place)
    lake.prepare()
    writer = FileWriter(str(place), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
    for number in (0, 0, 1):
        files = [*writer.add({REJECTED_EVENTS.name: row}), *writer.flush()]
        if not lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, Batch("app", number)):
            lake.discard(files)
    require_sound_lake(place)
    assert Lake(place).row_counts()[REJECTED_EVENTS.name] == 2
    assert {path.rpartition("/")[0] for path in lake.files(REJECTED_EVENTS.name)} == {str(place / REJECTED_EVENTS.name)}
    assert len([one for one in storage_at(place / REJECTED_EVENTS.name).entries() if "part-" in one.name]) == 2
    assert REJECTED_EVENTS.name in table_names(place)
    assert unfilled_count(place) == 0
    storage_at(place / REJECTED_EVENTS.name).remove(lake.files(REJECTED_EVENTS.name)[0].rpartition("/")[2])
    with pytest.raises(ClewError, match="has lost 1 of its 2 files"):
        require_sound_lake(place)


def test_a_table_that_is_gone_is_missed(place: LakePlace) -> None:
    Lake(place).prepare()
    # In a bucket there is no folder without something in it.
    commits = storage_at(place / REJECTED_EVENTS.name / "_delta_log")
    for entry in list(commits.entries()):
        commits.remove(entry.name)
    with pytest.raises(ClewError, match=r"rejected_events cannot be opened|has lost its table rejected_events"):
        require_sound_lake(place)


def test_an_object_is_made_once_and_exchanged_only_if_unchanged(bucket: BucketUrl) -> None:
    objects = bucket_at(bucket)
    first = objects.create("one", b"1")
    assert first is not None
    assert objects.create("one", b"2") is None
    second = objects.exchange("one", b"2", first)
    assert second is not None
    assert objects.exchange("one", b"3", first) is None
    found = objects.look("one")
    assert found is not None
    assert (found.content, found.version) == (b"2", second)
    assert objects.exchange("none", b"", first) is None


def test_two_who_commit_at_once_do_not_overwrite_each_other(bucket: BucketUrl) -> None:
    Lake(bucket).prepare()
    writer = FileWriter(str(bucket), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
    lakes = [Lake(bucket) for _ in range(3)]
    for lake in lakes:
        lake.table(REJECTED_EVENTS.name)
    for number, lake in enumerate(lakes):
        files = [*writer.add({REJECTED_EVENTS.name: row}), *writer.flush()]
        lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, Batch(f"app-{number}", 0))
    assert Lake(bucket).row_counts()[REJECTED_EVENTS.name] == 3


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("<Code>NoSuchBucket</Code>", "there is no bucket of that name"),
        ("Server returned non-2xx status code: 403 Forbidden: <Code>AccessDenied</Code>", "that is not permitted"),
        ("<Code>InvalidAccessKeyId</Code> 403", "its keys are not accepted"),
        ("Error performing PUT http://169.254.169.254/latest/api/token", "there are no keys to it"),
        ("HTTP error: builder error ... BadScheme", "its endpoint is http, which is not allowed"),
        ("301 Moved Permanently", "it is in another region"),
        ("501 Not Implemented", "cannot put an object only if there is none"),
        ("error sending request: tcp connect error", "it cannot be reached"),
        ("Something else.\nand more", r"Generic S3 error: Something else\."),
    ],
)
def test_what_is_wrong_with_a_bucket_is_a_sentence(said: str, sentence: str) -> None:
    wanted = rf"The lake s3://b/l cannot be used: .*{sentence}"
    with pytest.raises(ClewError, match=wanted), told_of_bucket(BucketUrl("s3://b/l")):
        raise OSError(f"Generic S3 error: {said}")


def test_faults_that_are_not_the_buckets_stay_as_they_are() -> None:
    with pytest.raises(BrokenPipeError), told_of_bucket(BucketUrl("s3://b/l")):
        raise BrokenPipeError


USES: dict[str, Callable[[Storage], object]] = {
    "read": lambda storage: storage.read("clew.json"),
    "write": lambda storage: storage.add("a", b""),
    "list": lambda storage: storage.entries(),
    "look for": lambda storage: storage.has_folder(),
    "open": lambda storage: storage.open_table("runs"),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_bucket_that_is_not_there(use: Callable[[Storage], object], bucket: BucketUrl) -> None:
    with pytest.raises(ClewError, match="there is no bucket of that name"):
        use(storage_at(f"s3://not-{bucket.bucket}/lake"))


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(buckets, "_MOST_TRIES", 1)
    with pytest.raises(ClewError, match="it cannot be reached"):
        storage_at("s3://nobody-answers/lake").read("clew.json")


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "clew.lake.bucket")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clew\[s3\]'"):
        bucket_at(BucketUrl("s3://b/l"))
