"""Tests of leases in buckets of several stores: one holder at a time, which must renew its lease."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pyarrow as pa
import pytest

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.bucket import LEASE_SECONDS, BucketStorage, Lease, LeaseLostError, read_lease
from clew.lake.compaction import compact_tables, vacuum_tables
from clew.lake.data_files import FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.scan import ValueRange, scan_range
from clew.lake.schemas import LARGE_COLUMNS, RUNTIME_EVENTS
from clew.lake.storage import open_bucket_storage
from clew.pipeline.locks import LockedError, acquire_lock, read_lock_holder

# S3Mock needs Java.
pytestmark = pytest.mark.parametrize(
    "bucket", ["moto", pytest.param("s3mock", marks=pytest.mark.spark), "azurite"], indirect=True
)
NAME = ".lock"
# A lease that has expired when it is acquired.
EXPIRED = -10.0


@pytest.fixture
def storage(bucket: BucketUrl) -> BucketStorage:
    return open_bucket_storage(bucket)


def test_lock_holder_is_reported_while_locked(bucket: BucketUrl, storage: BucketStorage) -> None:
    location = bucket / NAME
    assert read_lock_holder(location) is None
    with acquire_lock(location) as check_lock:
        check_lock()
        assert str(read_lock_holder(location)).startswith(f"process {os.getpid()} on {socket.gethostname()}, since 20")
        message = rf"Another pipeline is running on {bucket} \(process {os.getpid()} on"
        with pytest.raises(LockedError, match=message), acquire_lock(location):
            pass
        with pytest.raises(LockedError, match="its lock expires"), acquire_lock(location):
            pass
    assert read_lock_holder(location) is None
    assert list(storage.list_files()) == [], "lock and probe must be deleted"
    with acquire_lock(location):
        pass


def test_only_one_lease_is_acquired(storage: BucketStorage) -> None:
    first, second = Lease(storage, NAME), Lease(storage, NAME)
    assert first.try_acquire()
    assert not second.try_acquire()
    first.check()
    with pytest.raises(LeaseLostError):
        second.check()


def test_expired_lease_is_taken_over(storage: BucketStorage) -> None:
    expired, first, second = Lease(storage, NAME, EXPIRED), Lease(storage, NAME), Lease(storage, NAME)
    assert expired.try_acquire()
    assert read_lease(storage, NAME) is None, "an expired lease has no holder"
    assert first.try_acquire()
    assert not second.try_acquire()
    with pytest.raises(LeaseLostError, match="another process may hold it"):
        expired.check()


def test_only_one_takes_over_an_expired_lease(storage: BucketStorage) -> None:
    assert Lease(storage, NAME, EXPIRED).try_acquire()
    stored = storage.get_object(NAME)
    first, second = Lease(storage, NAME), Lease(storage, NAME)
    assert first._replace(stored) is not None
    assert second._replace(stored) is None


def test_renewed_lease_is_kept(storage: BucketStorage) -> None:
    lease, other = Lease(storage, NAME), Lease(storage, NAME)
    assert lease.try_acquire()
    before = storage.get_object(NAME)
    lease.renew()
    lease.renew()
    after = storage.get_object(NAME)
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    lease.check()
    assert not other.try_acquire()


def test_renew_after_a_lost_response(storage: BucketStorage) -> None:
    lease = Lease(storage, NAME)
    assert lease.try_acquire()
    stale = lease._etag
    lease.renew()
    lease._etag = stale
    lease.renew()
    lease.check()


def test_acquire_again_after_a_lost_response(storage: BucketStorage) -> None:
    lease = Lease(storage, NAME)
    assert lease.try_acquire()
    assert lease.try_acquire()
    lease.check()


def test_expired_lease_is_not_renewed(storage: BucketStorage) -> None:
    expired, other = Lease(storage, NAME, EXPIRED), Lease(storage, NAME)
    assert expired.try_acquire()
    assert other.try_acquire()
    expired.renew()
    with pytest.raises(LeaseLostError):
        expired.check()
    expired._release()
    assert read_lease(storage, NAME) is not None, "the lease of the other must not be released"


def test_lease_is_valid_until_expiry_without_network(storage: BucketStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(storage, NAME)
    assert lease.try_acquire()

    def fail(*_: object) -> None:
        raise ClewError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(BucketStorage, "put_if_match", fail)
        with pytest.raises(ClewError, match="no network"):
            lease.renew()
        lease.check()
        lease._valid_until -= LEASE_SECONDS
        with pytest.raises(LeaseLostError):
            lease.check()


def test_hold_renews_in_a_thread(storage: BucketStorage) -> None:
    lease = Lease(storage, NAME, 0.2)
    assert lease.try_acquire()
    with lease.hold():
        while (stored := storage.get_object(NAME)) is not None and b'"heartbeat":2' not in stored.content:
            pass
    assert storage.get_object(NAME) is None


def test_now_is_the_time_of_the_object_store(storage: BucketStorage) -> None:
    assert Lease(storage, NAME).try_acquire()
    stored = storage.get_object(NAME)
    assert stored is not None
    assert timedelta(0) <= Lease(storage, NAME)._now() - stored.written_at < timedelta(minutes=5)


def test_malformed_lock_has_an_unknown_holder(bucket: BucketUrl, storage: BucketStorage) -> None:
    storage.add(NAME, b"no claim")
    with pytest.raises(LockedError, match="unknown process"), acquire_lock(bucket / NAME):
        pass


def test_commit_fails_without_the_lease(bucket: BucketUrl, storage: BucketStorage) -> None:
    Lake(bucket).create_or_validate()
    lease = Lease(storage, NAME, EXPIRED)
    assert lease.try_acquire()
    lake = Lake(bucket, lease.check)
    version = lake.storage.open_table("runtime_events").version()
    with pytest.raises(LeaseLostError):
        lake._commit("runtime_events", None, lake.table("runtime_events").schema(), [], "append", None)  # type: ignore[union-attr, arg-type]
    assert lake.storage.open_table("runtime_events").version() == version


def test_storage_operations(storage: BucketStorage) -> None:
    assert (storage.has_folder(), storage.read("a/b"), storage.size("a/b")) == (False, None, None)
    storage.add("a/b", b"1")
    storage.replace("a/b", b"23")
    assert (storage.has_folder("a"), storage.read("a/b"), storage.size("a/b")) == (True, b"23", 2)
    assert (storage.list_folders(), list(storage.list_files())) == (["a"], [])
    storage.remove("a/b")
    storage.remove("a/b")
    storage.add("c", b"")
    assert [file.name for file in storage.list_files()] == ["c"]
    storage.remove_all()
    assert not storage.has_folder()


def test_conditional_puts(storage: BucketStorage) -> None:
    etag = storage.put_if_absent(NAME, b"1")
    assert etag is not None
    assert storage.put_if_absent(NAME, b"2") is None
    stored = storage.get_object(NAME)
    assert stored is not None
    assert (stored.content, stored.etag) == (b"1", etag)
    newer = storage.put_if_match(NAME, b"3", etag)
    assert newer is not None
    assert storage.put_if_match(NAME, b"4", etag) is None
    storage.remove(NAME)
    assert storage.put_if_match(NAME, b"5", newer) is None


def test_tables_are_created_appended_and_read(bucket: BucketUrl) -> None:
    lake = Lake(bucket)
    lake.create_or_validate()
    rows = pa.RecordBatch.from_pylist([{"event_id": "e", "seq": 1}], schema=RUNTIME_EVENTS.schema)
    for number in range(2):
        writer = FileWriter(str(bucket), LARGE_COLUMNS)
        files = [*writer.add({RUNTIME_EVENTS.name: rows}), *writer.flush()]
        assert lake.append(RUNTIME_EVENTS.name, RUNTIME_EVENTS.schema, files, BatchId("app", number))
    assert not lake.append(RUNTIME_EVENTS.name, RUNTIME_EVENTS.schema, [], BatchId("app", 1))
    table = Lake(bucket).require_table(RUNTIME_EVENTS.name)
    read = table.to_pyarrow_table(columns=["seq"], filesystem=lake.storage.filesystem(RUNTIME_EVENTS.name))
    assert read["seq"].to_pylist() == [1, 1]
    assert compact_tables(lake)[RUNTIME_EVENTS.name] == (2, 1)
    assert scan_range(Lake(bucket), RUNTIME_EVENTS, ValueRange("seq", 0, 9)).count_rows() == 2
    assert vacuum_tables(lake, 0, (RUNTIME_EVENTS.name,))[RUNTIME_EVENTS.name][0] == 2


def test_a_missing_bucket_is_reported(bucket: BucketUrl) -> None:
    missing = BucketUrl(str(bucket).replace(bucket.bucket, f"{bucket.bucket[:20]}-missing"))
    with pytest.raises(ClewError, match="the bucket does not exist"):
        open_bucket_storage(missing).add("a", b"")
