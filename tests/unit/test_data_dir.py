"""Tests of the data directory: its location, lake and index."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.data_dir import BucketUrl, DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.events.streams import Stream
from clew.index.writer import IndexWriter


@pytest.fixture
def root_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder below one with a `.clew`, and set `~`; return the common root."""
    folder = tmp_path / "project" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "project" / ".clew").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path


@pytest.mark.parametrize(
    ("argument", "variable", "root"),
    [
        ("given", "variable", "project/a/b/given"),
        ("~/given", None, "user/given"),
        ("", "variable", "project/a/b/variable"),
        (None, "~/variable", "user/variable"),
        (None, "", "project/.clew"),
        (None, None, "project/.clew"),
    ],
)
def test_precedence_is_argument_environment_nearest_folder(
    argument: str | None, variable: str | None, root: str, root_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("CLEW_HOME", variable)
    assert DataDir.find(argument).root == root_folder / root


def test_default_is_in_the_user_folder(root_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root_folder / "project" / ".clew").rmdir()
    monkeypatch.chdir(root_folder)
    assert DataDir.find().root == root_folder / "user" / ".clew"


def test_all_paths_are_in_the_data_directory(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    paths = (home.streams, home.log, home.lake, home.index_file, home.checkpoint)
    assert {path.parent for path in paths} == {tmp_path}
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    ("argument", "variable", "lake"),
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
def test_lake_location(
    argument: str | None, variable: str | None, lake: str, root_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("CLEW_LAKE", variable)
    home = DataDir.find(None, argument)
    assert home.lake == root_folder / lake
    assert home.index == root_folder / "project" / ".clew" / "index.sqlite"


@pytest.mark.parametrize(
    ("argument", "url", "key"),
    [
        ("s3://bucket/some/lake", "s3://bucket/some/lake", "some/lake"),
        ("s3://bucket/lake/", "s3://bucket/lake", "lake"),
        ("s3a://my-bucket.eu", "s3://my-bucket.eu", ""),
        ("gs://my_bucket/lake", "gs://my_bucket/lake", "lake"),
        ("az://lakes/a/b/", "az://lakes/a/b", "a/b"),
        (
            "abfs://lakes@shop.dfs.core.windows.net/a",
            "abfss://lakes@shop.dfs.core.windows.net/a",
            "a",
        ),
    ],
)
def test_lake_in_a_bucket(argument: str, url: str, key: str, root_folder: Path) -> None:
    home = DataDir.find(None, argument)
    assert isinstance(home.lake, BucketUrl)
    assert (str(home.lake), home.lake.key) == (url, key)
    child = home.lake / "a" / "b"
    assert (str(child), child.name, child.parent.parent) == (f"{url}/a/b", "b", home.lake)
    assert home.checkpoint.is_relative_to(root_folder)
    with pytest.raises(UsageError, match="is not a local folder"):
        _ = home.lake_folder


@pytest.mark.parametrize("location", ["hdfs://c/l", "file://host/lake", "http://x/y"])
def test_rejects_an_unsupported_lake_location(location: str) -> None:
    with pytest.raises(UsageError, match=rf"Invalid lake location {location}: it is neither a folder nor a bucket\."):
        DataDir.find(None, location)


@pytest.mark.parametrize(
    "location",
    [
        "s3://",
        "s3:///lake",
        "s3://bucket/my lake",
        "s3://bucket/a%20b",
        "s3://b?x=y",
        "gs://",
        "abfss://c/l",
        "az://c_d/e",
    ],
)
def test_rejects_an_invalid_bucket_url(location: str) -> None:
    with pytest.raises(UsageError, match=r"Invalid lake URL .*: it does not name a bucket\."):
        DataDir.find(None, location)


def test_error_does_not_contain_credentials() -> None:
    with pytest.raises(UsageError) as error:
        DataDir.find(None, "s3://key:secret@bucket/lake")
    assert "secret" not in str(error.value)
    assert "s3://bucket/prefix" in str(error.value)


def test_create_is_idempotent(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "deep" / "home")
    assert home.create() is home
    assert home.create().root.is_dir()
    assert list(home.root.iterdir()) == []


def test_rejects_an_unwritable_location(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ClewError, match=r"Cannot write to the data directory .*: Not a directory\.\nUse another folder"
    ):
        DataDir(tmp_path / "file" / "home").create()


def test_only_the_owner_can_read_a_data_directory(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "a" / "home").create()
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"{}")])
    with IndexWriter(home.index, FacetOrder.RECEIVED):
        pass
    folders = [home.root, home.root.parent, home.log]
    files = [path for path in home.root.rglob("*") if path.is_file() and path.name != ".lock"]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    assert len(files) > 1
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_keeps_the_mode_of_an_existing_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    DataDir(tmp_path).create()
    assert tmp_path.stat().st_mode & 0o777 == 0o750
