"""Who has the last word on a setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.config import SETTINGS, find_config_file, resolve_setting
from clew.data_dir import DataDir
from clew.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty `clew.toml`; work goes on below it."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "clew.toml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("flag", "variable", "said", "value", "origin"),
    [
        ("local[9]", "local[8]", 'master = "local[7]"', "local[9]", "flag"),
        (None, "local[8]", 'master = "local[7]"', "local[8]", "CLEW_MASTER"),
        ("", "", 'master = "local[7]"', "local[7]", "clew.toml"),
        (None, None, 'java = "bundled"', "local[2]", "default"),
        (None, None, "", "local[2]", "default"),
    ],
)
def test_flag_then_environment_then_file_then_default(
    flag: str | None,
    variable: str | None,
    said: str,
    value: str,
    origin: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (project / "clew.toml").write_text(said)
    if variable is not None:
        monkeypatch.setenv("CLEW_MASTER", variable)
    found = resolve_setting("master", flag)
    assert (found.value, Path(found.source).name) == (value, origin)


@pytest.mark.parametrize(
    ("said", "root"), [("lineage", "{project}/lineage"), ("/abs", "/abs"), ("~/x", "{project}/user/x")]
)
def test_paths_are_meant_from_the_files_folder(
    said: str, root: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project / "user"))
    (project / "clew.toml").write_text(f'home = "{said}"\nlake = "file:///lake"')
    home = DataDir.find()
    assert str(home.root) == root.format(project=project)
    assert home.lake == Path("/lake")


def test_without_a_file_defaults_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config_file() is None
    assert {name: resolve_setting(name).value for name in SETTINGS} == {
        name: one.default for name, one in SETTINGS.items()
    }


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("home", "Cannot read .*clew.toml: "),
        ('hom = "x"', r"Unknown setting 'hom' in .*\.\nValid settings: home, lake"),
        ("master = 2", r"Invalid value 2 for master in .*\.\nUse a string\."),
        ('java = "graal"', r"Invalid value 'graal' for java in .*\.\nUse auto, system or bundled\."),
    ],
)
def test_a_file_that_cannot_be_meant_is_a_sentence(said: str, sentence: str, project: Path) -> None:
    (project / "clew.toml").write_text(said)
    with pytest.raises(UsageError, match=sentence):
        resolve_setting("home")
