"""Tests of the names of notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.capture.environments.session import Session, notebook_name

NAMES = [
    # Folder with a marker, path of the notebook, name.
    ("home/shop/.git", "home/shop/analysis/eda.py", "shop/analysis/eda"),
    ("home/shop/.git", "home/shop/eda.ipynb", "shop/eda"),
    # The repository comes before a project inside it, which may share its name with another one.
    ("home/shop/.git", "home/shop/libs/core/eda.py", "shop/libs/core/eda"),
    ("home/shop/pyproject.toml", "home/shop/analysis/eda.py", "shop/analysis/eda"),
    ("home/a/requirements.txt", "home/a/notebook.py", "a/notebook"),
    # Without a project: from the home directory, or from the root of the file system.
    (None, "home/work/b/notebook.py", "work/b/notebook"),
    (None, "home/notebook.py", "notebook"),
    # A home directory is not a project, even if its settings are in a repository.
    ("home/.git", "home/work/notebook.py", "work/notebook"),
    ("mnt/job/.git", "mnt/job/notebook.py", "job/notebook"),
]


@pytest.mark.parametrize(("marker", "path", "name"), NAMES)
def test_name_is_relative_to_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str | None, path: str, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/shop/libs/core").mkdir(parents=True)
    (tmp_path / "home/shop/libs/core/pyproject.toml").touch()
    if marker is not None:
        (tmp_path / marker).mkdir(parents=True)
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    assert Session(notebook_name(file)).stem == name
    # The working directory and links to folders do not matter.
    (tmp_path / "link").symlink_to(file.parent)
    monkeypatch.chdir(file.parent)
    assert notebook_name(Path(file.name)) == notebook_name(file) == notebook_name(tmp_path / "link" / file.name)


def test_name_survives_a_moved_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()
    for home in ("alice", "bob"):
        monkeypatch.setenv("HOME", str(tmp_path / home))
        (tmp_path / home / "work").mkdir(parents=True)
        names.add(notebook_name(tmp_path / home / "work/eda.py"))
    assert names == {"work/eda.py"}


def test_notebook_without_a_file_is_named_by_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert notebook_name(None) == "a/notebook"


def test_name_outside_of_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert notebook_name(tmp_path / "a/notebook.py") == f"{str(tmp_path.resolve()).lstrip('/')}/a/notebook.py"


def test_project_folder_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_PROJECT", str(tmp_path / "checkout-7"))
    assert notebook_name(tmp_path / "checkout-7/analysis/eda.py") == "analysis/eda.py"
    assert notebook_name(tmp_path / "other/eda.py") == f"{str(tmp_path.resolve()).lstrip('/')}/other/eda.py"
