"""The lock of a lake in a bucket: one holder, whom others can name, and who must give signs of life."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest

from clew.data_dir import BucketUrl
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.lake.s3 import LEASE_SECONDS, Lease, LeaseLostError, S3Storage, read_lease
from clew.lake.storage import open_s3_storage
from clew.pipeline.locks import LockedError, acquire_lock, read_lock_holder

NAME = ".lock"
# Over before anyone looks.
OVER = -10.0


@pytest.fixture
def objects(bucket: BucketUrl) -> S3Storage:
    return open_s3_storage(bucket)


def test_the_holder_is_named_as_long_as_it_holds(bucket: BucketUrl, objects: S3Storage) -> None:
    place = bucket / NAME
    assert read_lock_holder(place) is None
    with acquire_lock(place) as require:
        require()
        assert str(read_lock_holder(place)).startswith(f"process {os.getpid()} on {socket.gethostname()}, since 20")
        sentence = rf"Another pipeline is running on {bucket} \(process {os.getpid()} on"
        with pytest.raises(LockedError, match=sentence), acquire_lock(place):
            pass
        with pytest.raises(LockedError, match="its lock expires"), acquire_lock(place):
            pass
    assert read_lock_holder(place) is None
    assert list(objects.list_files()) == [], "neither the lock nor a probe is left"
    with acquire_lock(place):
        pass


def test_only_one_of_two_gets_it(objects: S3Storage) -> None:
    first, second = Lease(objects, NAME), Lease(objects, NAME)
    assert first.try_acquire()
    assert not second.try_acquire()
    first.check()
    with pytest.raises(LeaseLostError):
        second.check()


def test_a_lock_without_signs_of_life_is_taken_over(objects: S3Storage) -> None:
    dead, first, second = Lease(objects, NAME, OVER), Lease(objects, NAME), Lease(objects, NAME)
    assert dead.try_acquire()
    assert read_lease(objects, NAME) is None, "whose time is over holds nothing"
    assert first.try_acquire()
    assert not second.try_acquire()
    with pytest.raises(LeaseLostError, match="another process may hold it"):
        dead.check()


def test_of_two_that_take_a_lock_over_one_wins(objects: S3Storage) -> None:
    assert Lease(objects, NAME, OVER).try_acquire()
    found = objects.get_object(NAME)
    first, second = Lease(objects, NAME), Lease(objects, NAME)
    assert first._replace(found) is not None
    assert second._replace(found) is None


def test_a_sign_of_life_keeps_it(objects: S3Storage) -> None:
    lease, other = Lease(objects, NAME), Lease(objects, NAME)
    assert lease.try_acquire()
    before = objects.get_object(NAME)
    lease.renew()
    lease.renew()
    after = objects.get_object(NAME)
    assert before is not None
    assert after is not None
    assert before.etag != after.etag
    lease.check()
    assert not other.try_acquire()


def test_a_sign_whose_answer_was_lost_is_known_again(objects: S3Storage) -> None:
    lease = Lease(objects, NAME)
    assert lease.try_acquire()
    stale = lease._etag
    lease.renew()
    lease._etag = stale
    lease.renew()
    lease.check()


def test_a_lock_whose_making_was_not_answered_is_known_again(objects: S3Storage) -> None:
    lease = Lease(objects, NAME)
    assert lease.try_acquire()
    assert lease.try_acquire()
    lease.check()


def test_who_was_asleep_too_long_has_lost_it_and_does_not_take_it_back(objects: S3Storage) -> None:
    asleep, other = Lease(objects, NAME, OVER), Lease(objects, NAME)
    assert asleep.try_acquire()
    assert other.try_acquire()
    asleep.renew()
    with pytest.raises(LeaseLostError):
        asleep.check()
    asleep._release()
    assert read_lease(objects, NAME) is not None, "it is the other's"


def test_without_a_network_it_holds_until_its_time_is_over(objects: S3Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(objects, NAME)
    assert lease.try_acquire()

    def fail(*_: object) -> None:
        raise ClewError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(S3Storage, "put_if_match", fail)
        with pytest.raises(ClewError, match="no network"):
            lease.renew()
        lease.check()
        lease._valid_until -= LEASE_SECONDS
        with pytest.raises(LeaseLostError):
            lease.check()


def test_a_thread_gives_the_signs(objects: S3Storage) -> None:
    lease = Lease(objects, NAME, 0.2)
    assert lease.try_acquire()
    with lease.hold():
        while (found := objects.get_object(NAME)) is not None and b'"heartbeat":2' not in found.content:
            pass
    assert objects.get_object(NAME) is None


def test_time_is_told_by_the_store(objects: S3Storage) -> None:
    assert Lease(objects, NAME).try_acquire()
    found = objects.get_object(NAME)
    assert found is not None
    assert timedelta(0) <= Lease(objects, NAME)._now() - found.written_at < timedelta(minutes=5)


def test_what_cannot_be_read_is_a_lock_of_an_unknown_holder(bucket: BucketUrl, objects: S3Storage) -> None:
    objects.add(NAME, b"no claim")
    with pytest.raises(LockedError, match="unknown process"), acquire_lock(bucket / NAME):
        pass


def test_without_the_lock_nothing_is_committed(bucket: BucketUrl, objects: S3Storage) -> None:
    Lake(bucket).create_or_validate()
    lease = Lease(objects, NAME, OVER)
    assert lease.try_acquire()
    lake = Lake(bucket, lease.check)
    version = lake.storage.open_table("runtime_events").version()
    with pytest.raises(LeaseLostError):
        lake._commit("runtime_events", None, lake.table("runtime_events").schema(), [], "append", None)  # type: ignore[union-attr, arg-type]
    assert lake.storage.open_table("runtime_events").version() == version
