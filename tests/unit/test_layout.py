"""Tests of the package layout, of the base install, and of the wheel."""

from __future__ import annotations

import ast
import shutil
import statistics
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "clew"
UNIT_TESTS = ROOT / "tests" / "unit"
PACKAGES = set(
    (
        "api capture cli client collector demo display eventlog events importer index kafka lake mcp pipeline query"
        " reports server watch"
    ).split()
)
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "manager", "misc"}
MAX_MODULES = 325
MAX_FILES_PER_FOLDER = 18
MAX_LINES = 700
MIN_MEDIAN_LINES = 140
# Sibling backends of capture use the same names for the same roles.
BACKENDS = "capture/backends/"
# Entry points of processes, and of environments that capture is installed into.
SHARED_NAMES = {"main", "install"}
SCHEMAS = (
    "MarimoExecutionRunFacet",
    "MarimoPerformanceRunFacet",
    "dataframe_lineage_schema",
    "openlineage_core_schema",
    "openlineage_events_schema",
    "runtime_events_schema",
)

# Run in a separate process in which only the standard library, msgspec and clew can be imported.
IMPORT_WITHOUT_EXTRAS = """
import importlib
import pkgutil
import sys

# Imported after the user's code has imported pandas.
PANDAS_BACKEND = "clew.capture.backends.pandas"
ALLOWED = {*sys.stdlib_module_names, "clew", "msgspec"}

class BaseInstallOnly:
    def find_spec(self, name, path=None, target=None):
        # _sysconfigdata: a module of the standard library whose name depends on the machine.
        if name.partition(".")[0] not in ALLOWED and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"{name} is not part of the base install", name=name)

sys.meta_path.insert(0, BaseInstallOnly())
for package in ("clew", "clew.errors", "clew.data_dir", "clew.events", "clew.capture"):
    module = importlib.import_module(package)
    if package != "clew":
        for info in pkgutil.walk_packages(getattr(module, "__path__", []), package + ".", onerror=print):
            if not info.name.startswith(PANDAS_BACKEND):
                importlib.import_module(info.name)
print(sum(name.startswith("clew.") for name in sys.modules))
"""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def public_definitions(path: Path) -> set[str]:
    body = ast.parse(path.read_text()).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")}


def test_packages() -> None:
    assert {init.parent.name for init in PACKAGE.glob("*/__init__.py")} == PACKAGES


def test_module_names_are_specific() -> None:
    assert [relative(module) for module in modules() if VAGUE_NAMES & set(module.stem.split("_"))] == []


def test_module_count_and_size() -> None:
    lengths = {relative(module): len(module.read_text().splitlines()) for module in modules()}
    assert len(lengths) <= MAX_MODULES
    assert statistics.median(lengths.values()) >= MIN_MEDIAN_LINES
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_folder_size() -> None:
    counts = Counter(str(module.parent.relative_to(PACKAGE)) for module in modules())
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES_PER_FOLDER} == {}


def test_public_names_are_defined_once() -> None:
    modules_by_name = defaultdict(list)
    for module in modules():
        for name in public_definitions(module) - SHARED_NAMES:
            modules_by_name[name].append(relative(module))
    repeated = {name: places for name, places in modules_by_name.items() if len(places) > 1}
    assert {
        name: places
        for name, places in repeated.items()
        if not all(place.startswith(BACKENDS) for place in places)
        or len({place.removeprefix(BACKENDS).partition("/")[0] for place in places}) < len(places)
    } == {}


def test_packages_document_their_modules() -> None:
    missing = {}
    for init in PACKAGE.rglob("__init__.py"):
        siblings = {path.name for path in init.parent.glob("*.py")} - {"__init__.py", "__main__.py"}
        docstring = ast.get_docstring(ast.parse(init.read_text())) or ""
        if len(siblings) > 2 and init.parent != PACKAGE:
            missing[relative(init)] = sorted(name for name in siblings if f"`{name}`" not in docstring)
    assert {init: names for init, names in missing.items() if names} == {}


def test_unit_tests_mirror_modules() -> None:
    unmatched = []
    for test in UNIT_TESTS.rglob("test_*.py"):
        folder = PACKAGE / test.parent.relative_to(UNIT_TESTS)
        subject = test.stem.removeprefix("test_")
        stems = {path.stem for path in folder.glob("*.py")} | {"docs", "layout"}
        if folder != PACKAGE / "bench" and not any(subject == stem or subject.startswith(f"{stem}_") for stem in stems):
            unmatched.append(str(test.relative_to(UNIT_TESTS)))
    assert unmatched == []


def test_the_base_install_imports_without_extras() -> None:
    command = [sys.executable, "-W", "error", "-c", IMPORT_WITHOUT_EXTRAS]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) >= 4


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the PATH")
    folder = tmp_path_factory.mktemp("wheel")
    command = [uv, "build", "--wheel", "--quiet", "--out-dir", str(folder), str(ROOT)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("clew-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize(
    "name", ["clew/py.typed", "clew/display/widget.js", *(f"clew/events/schemas/{schema}.json" for schema in SCHEMAS)]
)
def test_the_wheel_has_data_file(wheel_names: set[str], name: str) -> None:
    assert name in wheel_names


def test_the_wheel_has_every_module(wheel_names: set[str]) -> None:
    assert {str(module.relative_to(PACKAGE.parent)) for module in modules()} <= wheel_names


def test_the_wheel_has_the_web_ui(wheel_names: set[str]) -> None:
    static = PACKAGE / "api" / "static"
    if not (static / "index.html").is_file():
        pytest.skip("the web UI is not built: make web")
    assert {str(file.relative_to(PACKAGE.parent)) for file in static.rglob("*") if file.is_file()} <= wheel_names
