"""Which folder is home."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError, UsageError


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder deep below one that has a `.clew`, and an own `~`."""
    folder = tmp_path / "project" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "project" / ".clew").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path


@pytest.mark.parametrize(
    ("given", "variable", "root"),
    [
        ("given", "variable", "project/a/b/given"),
        ("~/given", None, "user/given"),
        ("", "variable", "project/a/b/variable"),
        (None, "~/variable", "user/variable"),
        (None, "", "project/.clew"),
        (None, None, "project/.clew"),
    ],
)
def test_the_nearest_word_counts(
    given: str | None, variable: str | None, root: str, below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("CLEW_HOME", variable)
    assert DataDir.find(given).root == below / root


def test_without_any_word_it_is_in_the_users_folder(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (below / "project" / ".clew").rmdir()
    monkeypatch.chdir(below)
    assert DataDir.find().root == below / "user" / ".clew"


def test_everything_is_in_the_one_folder(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    places = (home.streams, home.log, home.lake, home.index_file, home.checkpoint)
    assert {place.parent for place in places} == {tmp_path}
    assert len(set(places)) == len(places)


@pytest.mark.parametrize(
    ("given", "variable", "lake"),
    [
        ("given", "variable", "project/a/b/given"),
        ("~/given", None, "user/given"),
        (None, "variable", "project/a/b/variable"),
        ("file:///some/my%20lake", None, "/some/my lake"),
        ("file://localhost/lake", None, "/lake"),
        (None, None, "project/.clew/lake"),
        ("", "", "project/.clew/lake"),
    ],
)
def test_the_lake_may_be_elsewhere(
    given: str | None, variable: str | None, lake: str, below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("CLEW_LAKE", variable)
    home = DataDir.find(None, given)
    assert home.lake == below / lake
    assert home.index == below / "project" / ".clew" / "index.sqlite"


@pytest.mark.parametrize(
    ("given", "url", "key"),
    [
        ("s3://bucket/some/lake", "s3://bucket/some/lake", "some/lake"),
        ("s3://bucket/lake/", "s3://bucket/lake", "lake"),
        ("s3a://my-bucket.eu", "s3://my-bucket.eu", ""),
    ],
)
def test_the_lake_may_be_in_a_bucket(given: str, url: str, key: str, below: Path) -> None:
    home = DataDir.find(None, given)
    assert isinstance(home.lake, BucketUrl)
    assert (str(home.lake), home.lake.key) == (url, key)
    below_it = home.lake / "a" / "b"
    assert (str(below_it), below_it.name, below_it.parent.parent) == (f"{url}/a/b", "b", home.lake)
    assert home.checkpoint.is_relative_to(below)
    with pytest.raises(UsageError, match="is not a local folder"):
        _ = home.lake_folder


@pytest.mark.parametrize("place", ["gs://b", "abfss://c/l", "file://host/lake", "http://x/y"])
def test_a_lake_at_any_other_place_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match=rf"Invalid lake location {place}: it is neither a folder nor S3\."):
        DataDir.find(None, place)


@pytest.mark.parametrize("place", ["s3://", "s3:///lake", "s3://bucket/my lake", "s3://bucket/a%20b", "s3://b?x=y"])
def test_a_url_that_names_no_place_in_a_bucket_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match=r"Invalid lake URL .*: it does not name a bucket\."):
        DataDir.find(None, place)


def test_keys_in_a_url_are_not_repeated() -> None:
    with pytest.raises(UsageError) as told:
        DataDir.find(None, "s3://key:secret@bucket/lake")
    assert "secret" not in str(told.value)
    assert "AWS_*" in str(told.value)


def test_it_is_made_once_and_left_clean(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "deep" / "home")
    assert home.create() is home
    assert home.create().root.is_dir()
    assert list(home.root.iterdir()) == []


def test_a_home_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ClewError, match=r"Cannot write to the data directory .*: Not a directory\.\nUse another folder"
    ):
        DataDir(tmp_path / "file" / "home").create()
