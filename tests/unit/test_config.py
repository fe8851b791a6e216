"""Tests of settings and their precedence."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from clew.config import SETTINGS, find_config_file, parse_age, resolve_setting
from clew.data_dir import DataDir
from clew.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with an empty `clew.toml` and change to a folder below it."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "clew.toml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("flag", "variable", "config", "value", "source"),
    [
        ("local[9]", "local[8]", 'master = "local[7]"', "local[9]", "flag"),
        (None, "local[8]", 'master = "local[7]"', "local[8]", "CLEW_MASTER"),
        ("", "", 'master = "local[7]"', "local[7]", "clew.toml"),
        (None, None, 'java = "bundled"', "local[2]", "default"),
        (None, None, "", "local[2]", "default"),
    ],
)
def test_precedence_is_flag_environment_file_default(
    flag: str | None,
    variable: str | None,
    config: str,
    value: str,
    source: str,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (project / "clew.toml").write_text(config)
    if variable is not None:
        monkeypatch.setenv("CLEW_MASTER", variable)
    setting = resolve_setting("master", flag)
    assert (setting.value, Path(setting.source).name) == (value, source)


@pytest.mark.parametrize(
    ("path", "root"), [("lineage", "{project}/lineage"), ("/abs", "/abs"), ("~/x", "{project}/user/x")]
)
def test_paths_are_relative_to_the_config_file(
    path: str, root: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project / "user"))
    (project / "clew.toml").write_text(f'home = "{path}"\nlake = "file:///lake"')
    home = DataDir.find()
    assert str(home.root) == root.format(project=project)
    assert home.lake == Path("/lake")


def test_defaults_without_a_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config_file() is None
    assert {name: resolve_setting(name).value for name in SETTINGS} == {
        name: setting.default for name, setting in SETTINGS.items()
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("home", "Cannot read .*clew.toml: "),
        ('hom = "x"', r"Unknown setting 'hom' in .*\.\nValid settings: home, lake"),
        ("master = 2", r"Invalid value 2 for master in .*\.\nUse a string\."),
        ('java = "graal"', r"Invalid value 'graal' for java in .*\.\nUse auto, system or bundled\."),
    ],
)
def test_rejects_an_invalid_config_file(config: str, message: str, project: Path) -> None:
    (project / "clew.toml").write_text(config)
    with pytest.raises(UsageError, match=message):
        resolve_setting("home")


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("30m", timedelta(minutes=30)),
        ("36h", timedelta(hours=36)),
        ("99999d", timedelta(days=99_999)),
        *((text, None) for text in ("", "30", "30s", "-1d", "1.5h", "100000d", "3 weeks", "1d ")),
    ],
)
def test_parses_ages(text: str, age: timedelta | None) -> None:
    assert parse_age(text) == age
