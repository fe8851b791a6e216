"""The lock of a lake in a bucket: one holder, whom others can name, and who must give signs of life."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest

from clew.errors import ClewError
from clew.home import BucketUrl
from clew.lake.bucket import Bucket
from clew.lake.delta import Lake
from clew.lake.storage import bucket_at
from clew.pipeline.lease import LEASE_SECONDS, Lease, LostError, claim_on
from clew.pipeline.lock import HeldError, held, holder_of

NAME = ".lock"
# Over before anyone looks.
OVER = -10.0


@pytest.fixture
def objects(bucket: BucketUrl) -> Bucket:
    return bucket_at(bucket)


def test_the_holder_is_named_as_long_as_it_holds(bucket: BucketUrl, objects: Bucket) -> None:
    place = bucket / NAME
    assert holder_of(place) is None
    with held(place) as require:
        require()
        assert str(holder_of(place)).startswith(f"process {os.getpid()} on {socket.gethostname()}, since 20")
        sentence = rf"Another pipeline is at work on {bucket} \(process {os.getpid()} on"
        with pytest.raises(HeldError, match=sentence), held(place):
            pass
        with pytest.raises(HeldError, match="its lock ends by itself"), held(place):
            pass
    assert holder_of(place) is None
    assert list(objects.entries()) == [], "neither the lock nor a probe is left"
    with held(place):
        pass


def test_only_one_of_two_gets_it(objects: Bucket) -> None:
    first, second = Lease(objects, NAME), Lease(objects, NAME)
    assert first.take()
    assert not second.take()
    first.require()
    with pytest.raises(LostError):
        second.require()


def test_a_lock_without_signs_of_life_is_taken_over(objects: Bucket) -> None:
    dead, first, second = Lease(objects, NAME, OVER), Lease(objects, NAME), Lease(objects, NAME)
    assert dead.take()
    assert claim_on(objects, NAME) is None, "whose time is over holds nothing"
    assert first.take()
    assert not second.take()
    with pytest.raises(LostError, match="another may hold it"):
        dead.require()


def test_of_two_that_take_a_lock_over_one_wins(objects: Bucket) -> None:
    assert Lease(objects, NAME, OVER).take()
    found = objects.look(NAME)
    first, second = Lease(objects, NAME), Lease(objects, NAME)
    assert first._replaced(found) is not None
    assert second._replaced(found) is None


def test_a_sign_of_life_keeps_it(objects: Bucket) -> None:
    lease, other = Lease(objects, NAME), Lease(objects, NAME)
    assert lease.take()
    before = objects.look(NAME)
    lease.renew()
    lease.renew()
    after = objects.look(NAME)
    assert before is not None
    assert after is not None
    assert before.version != after.version
    lease.require()
    assert not other.take()


def test_a_sign_whose_answer_was_lost_is_known_again(objects: Bucket) -> None:
    lease = Lease(objects, NAME)
    assert lease.take()
    stale = lease._version
    lease.renew()
    lease._version = stale
    lease.renew()
    lease.require()


def test_a_lock_whose_making_was_not_answered_is_known_again(objects: Bucket) -> None:
    lease = Lease(objects, NAME)
    assert lease.take()
    assert lease.take()
    lease.require()


def test_who_was_asleep_too_long_has_lost_it_and_does_not_take_it_back(objects: Bucket) -> None:
    asleep, other = Lease(objects, NAME, OVER), Lease(objects, NAME)
    assert asleep.take()
    assert other.take()
    asleep.renew()
    with pytest.raises(LostError):
        asleep.require()
    asleep._give_back()
    assert claim_on(objects, NAME) is not None, "it is the other's"


def test_without_a_network_it_holds_until_its_time_is_over(objects: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease(objects, NAME)
    assert lease.take()

    def fail(*_: object) -> None:
        raise ClewError("no network")

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "exchange", fail)
        with pytest.raises(ClewError, match="no network"):
            lease.renew()
        lease.require()
        lease._valid_until -= LEASE_SECONDS
        with pytest.raises(LostError):
            lease.require()


def test_a_thread_gives_the_signs(objects: Bucket) -> None:
    lease = Lease(objects, NAME, 0.2)
    assert lease.take()
    with lease.kept():
        while (found := objects.look(NAME)) is not None and b'"sign":2' not in found.content:
            pass
    assert objects.look(NAME) is None


def test_time_is_told_by_the_store(objects: Bucket) -> None:
    assert Lease(objects, NAME).take()
    found = objects.look(NAME)
    assert found is not None
    assert timedelta(0) <= Lease(objects, NAME)._now() - found.written_at < timedelta(minutes=5)


def test_what_cannot_be_read_is_a_lock_of_an_unknown_holder(bucket: BucketUrl, objects: Bucket) -> None:
    objects.add(NAME, b"no claim")
    with pytest.raises(HeldError, match="unknown process"), held(bucket / NAME):
        pass


def test_without_the_lock_nothing_is_committed(bucket: BucketUrl, objects: Bucket) -> None:
    Lake(bucket).prepare()
    lease = Lease(objects, NAME, OVER)
    assert lease.take()
    lake = Lake(bucket, lease.require)
    version = lake.storage.open_table("runtime_events").version()
    with pytest.raises(LostError):
        lake._commit("runtime_events", None, lake.table("runtime_events").schema(), [], "append", None)  # type: ignore[union-attr, arg-type]
    assert lake.storage.open_table("runtime_events").version() == version
