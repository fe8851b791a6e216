"""Tests of leases in S3: one holder at a time, which must renew its lease."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.bucket import LEASE_SECONDS, BucketStorage, Lease, LeaseLostError, read_lease
from clew.lake.lake import Lake
from clew.lake.storage import open_bucket_storage
from clew.pipeline.locks import LockedError, acquire_lock, read_lock_holder

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
