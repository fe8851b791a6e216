"""Tests of facets, and of the examples in docs/capture.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from tests.support.paths import DOCS

from clew.capture.emit.facets import source_code_location_facet

PAGE = DOCS / "capture.md"


def test_documented_examples_print_the_documented_output(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for code, output in examples:
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert process.stdout == output, process.stderr


def make_repository(folder: Path, url: str = "https://user:token@example.com/org/data.git") -> Path:
    git = folder / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{'a' * 40} refs/heads/feature/x\n")
    (git / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n')
    (folder / "notebooks").mkdir()
    notebook = folder / "notebooks" / "my orders.py"
    notebook.touch()
    return notebook


def location_of(path: Path) -> dict[str, Any]:
    facet: dict[str, Any] = msgspec.json.decode(source_code_location_facet(path, str(path)))
    return {key: value for key, value in facet.items() if not key.startswith("_")}


def test_source_location_in_a_repository(tmp_path: Path) -> None:
    notebook = make_repository(tmp_path)
    assert location_of(notebook) == {
        "type": "git",
        "url": f"https://example.com/org/data/blob/{'a' * 40}/notebooks/my%20orders.py",
        "repoUrl": "https://example.com/org/data.git",
        "path": "notebooks/my orders.py",
        "branch": "feature/x",
        "version": "a" * 40,
    }


def test_source_location_with_an_ssh_remote_and_a_detached_head(tmp_path: Path) -> None:
    notebook = make_repository(tmp_path, "git@example.com:org/data.git")
    (tmp_path / ".git/HEAD").write_text(f"{'b' * 40}\n")
    location = location_of(notebook)
    assert location["url"] == f"https://example.com/org/data/blob/{'b' * 40}/notebooks/my%20orders.py"
    assert location["repoUrl"] == "git@example.com:org/data.git"
    assert "branch" not in location


def test_source_location_in_a_worktree(tmp_path: Path) -> None:
    make_repository(tmp_path / "main")
    state = tmp_path / "main/.git/worktrees/other"
    state.mkdir(parents=True)
    (state / "commondir").write_text("../..\n")
    (state / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.git").write_text(f"gitdir: {state}\n")
    (tmp_path / "other/book.py").touch()
    location = location_of(tmp_path / "other/book.py")
    assert (location["version"], location["path"]) == ("a" * 40, "book.py")


def test_source_location_without_a_repository(tmp_path: Path) -> None:
    (tmp_path / "book.py").touch()
    assert location_of(tmp_path / "book.py") == {"type": "file", "url": (tmp_path / "book.py").as_uri()}


def test_source_location_in_a_new_repository(tmp_path: Path) -> None:
    notebook = make_repository(tmp_path)
    (tmp_path / ".git/packed-refs").unlink()
    (tmp_path / ".git/config").write_text("[core]\n")
    assert location_of(notebook) == {
        "type": "git",
        "url": notebook.as_uri(),
        "path": "notebooks/my orders.py",
        "branch": "feature/x",
    }
