"""The folders show the way of the data, the agent stays light, and the wheel is whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "clew"
STAGES = set(
    "api capture cli client collector demo events index lake mcp notebook pipeline query reports serving".split()
)
SAYS_NOTHING = {"util", "utils", "helper", "helpers", "manager", "common", "handler", "handlers", "processor", "misc"}
SCHEMAS = (
    "dataframe_lineage_schema",
    "openlineage_core_schema",
    "openlineage_events_schema",
    "runtime_events_schema",
)

# Run in a process of its own, in which only the standard library, msgspec and clew can be imported.
IMPORT_WITHOUT_EXTRAS = """
import importlib
import pkgutil
import sys

# Loaded once the user's own code has imported pandas, never before.
ADAPTER = "clew.capture.frames"
ALLOWED = {*sys.stdlib_module_names, "clew", "msgspec"}

class OnlyTheBase:
    def find_spec(self, name, path=None, target=None):
        # _sysconfigdata: a part of the standard library whose name depends on the machine.
        if name.partition(".")[0] not in ALLOWED and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"{name} is not part of the base install", name=name)

sys.meta_path.insert(0, OnlyTheBase())
for stage in ("clew", "clew.errors", "clew.home", "clew.events", "clew.capture"):
    module = importlib.import_module(stage)
    if stage != "clew":
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), stage + ".", onerror=print):
            if not found.name.startswith(ADAPTER):
                importlib.import_module(found.name)
print(sum(name.startswith("clew.") for name in sys.modules))
"""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_packages_are_the_stages_of_the_design() -> None:
    assert {init.parent.name for init in PACKAGE.glob("*/__init__.py")} == STAGES


def test_modules_are_nouns_of_the_domain() -> None:
    assert [str(module) for module in modules() if SAYS_NOTHING & set(module.stem.split("_"))] == []


def test_files_stay_short() -> None:
    lengths = {str(module.relative_to(PACKAGE)): len(module.read_text().splitlines()) for module in modules()}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_the_base_install_imports_without_extras() -> None:
    command = [sys.executable, "-W", "error", "-c", IMPORT_WITHOUT_EXTRAS]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 4


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH")
    folder = tmp_path_factory.mktemp("wheel")
    command = [uv, "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("clew-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize(
    "name", ["clew/py.typed", "clew/notebook/widget.js", *(f"clew/events/schemas/{schema}.json" for schema in SCHEMAS)]
)
def test_the_wheel_carries(wheel_names: set[str], name: str) -> None:
    assert name in wheel_names


def test_the_wheel_carries_every_module(wheel_names: set[str]) -> None:
    assert {str(module.relative_to(PACKAGE.parent)) for module in modules()} <= wheel_names


def test_the_wheel_carries_the_web_interface(wheel_names: set[str]) -> None:
    static = PACKAGE / "api" / "static"
    if not (static / "index.html").is_file():
        pytest.skip("the web interface is not built: make web")
    assert {str(file.relative_to(PACKAGE.parent)) for file in static.rglob("*") if file.is_file()} <= wheel_names
