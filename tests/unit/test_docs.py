"""The documentation covers all commands, options, variables, tables and columns, and its links resolve."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pyarrow as pa
import pytest
from bench.report import BenchReport
from bench.suite import list_measures
from mcp import Client
from tests.support.documented_events import DOCUMENTED_EVENTS
from tests.support.paths import ROOT

from clew.cli.main import cli
from clew.config import SETTINGS
from clew.events.decoding import RejectionReason
from clew.lake.schemas import DERIVED_TABLE_NAMES, SOURCE_TABLES, Table
from clew.mcp.server import create_server

DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "clew"
REPORT = ROOT / "bench" / "report.md"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
MAX_IMAGE_BYTES = 200_000
# Set by clew for the processes that it starts itself.
INTERNAL_VARIABLES = {"CLEW_NOTEBOOK", "CLEW_PATH", "CLEW_DEMO_DATA", "CLEW_SESSION_ID"}
COMMON_OPTIONS = {"--help", "-h", "--version"}
# Code spans of the architecture tables that are not Python names.
NOT_FUNCTIONS = {"columnLineage", "dataset_facets"}

# Pages with commands that tests/e2e/test_docs.py runs.
RUN_PAGES = (
    "README.md",
    "docs/install.md",
    "docs/capture.md",
    "docs/send-events.md",
    "docs/operate.md",
    "docs/query.md",
    "docs/pipeline.md",
    "docs/tables.md",
    "docs/reports.md",
)
# Servers on fixed ports; other tests run them.
RUN_ELSEWHERE = {
    "clew up": "tests/e2e/test_up.py",
    "clew collect": "tests/e2e/conftest.py",
    # They need a database of Marquez.
    "clew import marquez": "tests/integration/importer/test_importer.py",
    "clew import compare": "tests/integration/importer/test_importer.py",
    "clew import files": "tests/integration/importer/test_importer.py",
}
# Servers, and the completion script.
WITHOUT_JSON = {"clew up", "clew collect", "clew serve", "clew mcp", "clew completion"}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(page: str, level: int) -> dict[str, str]:
    """Return the sections of one level by title."""
    heading = re.compile(rf"^#{{{level}}} `?([^`\n]+?)`?\n(.*?)(?=^#{{1,{level}}} |\Z)", re.MULTILINE | re.DOTALL)
    return dict(heading.findall(outside_blocks(page)))


def outside_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def first_cells(section: str) -> list[str]:
    """Return the values in backticks in the first column of the section's tables."""
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def commands(group: click.Group, *names: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)
        else:
            yield " ".join(("clew", *names, name)), command


def options(command: click.Command) -> set[str]:
    names = {
        name
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
        for name in (*param.opts, *param.secondary_opts)
    }
    return names - COMMON_OPTIONS


COMMANDS = dict(commands(cli))


def test_cli_reference_is_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate_cli_reference.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_command_has_a_section_in_the_reference() -> None:
    documented = [title for title in sections(text("docs/cli.md"), 2) if title.startswith("clew ")]
    assert sorted(documented) == sorted(COMMANDS)


def test_every_command_has_an_example_that_is_run() -> None:
    blocks = [block for page in RUN_PAGES for block in re.findall(r"```console\n(.*?)```", text(page), re.DOTALL)]
    lines = [line for block in blocks for line in re.findall(r"^\$ (clew [^\n]*)", block, re.MULTILINE)]
    missing = {name for name in COMMANDS if not any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert missing <= set(RUN_ELSEWHERE)
    for name, test in RUN_ELSEWHERE.items():
        assert f'"{name.split()[-1]}"' in text(test)


def test_every_command_with_a_result_has_json_output() -> None:
    assert {name for name, command in COMMANDS.items() if "--json" not in options(command)} == WITHOUT_JSON


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_in_the_reference(name: str) -> None:
    section = text("docs/cli.md").split(f"\n## {name}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`--?[^|]*`) \|", section, re.MULTILINE)
    assert {option for cell in cells for option in re.findall(r"`([^`]+)`", cell)} == options(COMMANDS[name])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_in_examples_exist(page: Path) -> None:
    body = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|text|sh)\n(.*?)^```", body, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in re.findall(r"^(?:\$ )?(clew [a-z][^\n|#]*)", block, re.MULTILINE)]
    for line in lines:
        name = next((name for name in COMMANDS if f"{line} ".startswith(f"{name} ")), None)
        if name is not None and name != "clew run":
            assert set(re.findall(r" (--[a-z-]+)", line)) <= options(COMMANDS[name]), line


def test_commands_in_pages_exist() -> None:
    names = {name for page in PAGES for name in re.findall(r"`clew ([a-z]+)(?: |`)", page.read_text(encoding="utf-8"))}
    assert names <= {name.split()[1] for name in COMMANDS}


def test_mcp_tools_are_documented() -> None:
    async def names() -> set[str]:
        async with Client(create_server(Path("none"))) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    section = sections(text("docs/query.md"), 2)["AI agents (MCP)"]
    assert set(first_cells(section)) == asyncio.run(names())


def test_environment_variables_are_documented() -> None:
    source = "\n".join(module.read_text(encoding="utf-8") for module in (ROOT / "src").rglob("*.py"))
    documented = set(first_cells(sections(text("docs/cli.md"), 2)["Environment variables"]))
    assert documented == set(re.findall(r'"(CLEW_[A-Z_]+)"', source)) - INTERNAL_VARIABLES


def test_settings_file_example_has_every_setting() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", text("docs/cli.md"), re.MULTILINE | re.DOTALL)
    assert set(tomllib.loads(example)) == set(SETTINGS)


def documented_columns(table: str) -> dict[str, str]:
    """Return the documented columns of a table with their types."""
    section = sections(text("docs/tables.md"), 3)[table]
    return dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", section, re.MULTILINE))


def simple_name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "list"
    names = {"int64": "long", "double": "double", "bool": "boolean", "timestamp[us, tz=UTC]": "timestamp"}
    return names.get(str(kind), str(kind))


@pytest.mark.parametrize("table", SOURCE_TABLES, ids=lambda table: table.name)
def test_every_column_of_an_event_table_is_documented(table: Table) -> None:
    assert documented_columns(table.name) == {field.name: simple_name(field.type) for field in table.schema}


def test_every_table_is_documented() -> None:
    names = [*(table.name for table in SOURCE_TABLES), *DERIVED_TABLE_NAMES]
    assert sorted(sections(text("docs/tables.md"), 3)) == sorted(names)
    overview = text("docs/tables.md").split("## Event tables")[0]
    assert sorted(re.findall(r"^\| \[`(\w+)`\]\(#\1\) \|", overview, re.MULTILINE)) == sorted(names)


def test_rejection_reasons_are_documented() -> None:
    section = sections(text("docs/pipeline.md"), 2)["Rejected events"]
    assert sorted(first_cells(section)) == sorted(RejectionReason)


def anchors(page: Path) -> set[str]:
    body = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", body, re.MULTILINE)
    marked = re.findall(r'<a id="([^"]+)">', body)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles} | set(marked)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    body = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", outside_blocks(body)) + re.findall(r'(?:src|srcset)="([^"]+)"', body)
    for link in links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target == REPORT and not REPORT.exists():
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index_and_in_the_navigation() -> None:
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([\w/-]+\.md)\)", text("docs/index.md"))) == pages
    nav = text("mkdocs.yml").split("\nnav:\n")[1]
    assert set(re.findall(r": ([\w/-]+\.md)$", nav, re.MULTILINE)) == pages | {"index.md"}


def test_images_are_small_and_used() -> None:
    images = list((DOCS / "images").iterdir())
    assert images
    bodies = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for image in images:
        assert image.stat().st_size < MAX_IMAGE_BYTES
        assert f"images/{image.name}" in bodies


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    names = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert names
    assert names <= targets


def test_extras_exist() -> None:
    declared = set(re.findall(r"^(\w+) = \[", text("pyproject.toml").split("optional-dependencies]")[1], re.MULTILINE))
    for page in PAGES:
        for extras in re.findall(r"(?:clew|\.whl)\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert set(extras.split(",")) <= declared


def architecture_rows() -> list[tuple[list[str], list[str]]]:
    """Files and names in the three-column tables of the architecture page."""
    rows = []
    for line in text("docs/architecture.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        files = re.findall(r"`([\w/]+\.(?:py|sql))`", cells[1]) if len(cells) == 3 else []
        if files:
            rows.append((files, re.findall(r"`([A-Za-z_]\w*(?:\.\w+)?)`", cells[2])))
    return rows


def test_architecture_page_names_existing_files_and_functions() -> None:
    rows = architecture_rows()
    assert len(rows) > 60
    missing = []
    for files, names in rows:
        paths = [PACKAGE / file for file in files]
        missing += [str(path) for path in paths if not path.is_file()]
        source = "".join(path.read_text() for path in paths if path.is_file())
        for name in set(names) - NOT_FUNCTIONS:
            if not all(re.search(rf"\b{part}\b", source) for part in name.split(".")):
                missing.append(f"{name} in {files}")
    assert missing == []


def coverage_rows() -> dict[str, str]:
    rows = re.findall(r"^\| (.+) \| (`tests/[^`]+`) \|$", text("docs/document-coverage.md"), re.MULTILINE)
    return {item: test.strip("`") for item, test in rows}


def test_every_covering_test_exists() -> None:
    tests = set(coverage_rows().values())
    assert len(tests) > 20
    for test in tests:
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in text(file), test


def test_every_documented_item_is_covered() -> None:
    table_lines = re.findall(
        r"^\| (?!item|field|rule|table)[^|]*\|.*$", text("docs/document-coverage.md"), re.MULTILINE
    )
    assert len(table_lines) > 80
    assert all(re.search(r"\| (`tests/[^`]+`) \|$", line) for line in table_lines)


@pytest.mark.parametrize("event", DOCUMENTED_EVENTS.values(), ids=DOCUMENTED_EVENTS)
def test_every_documented_field_is_listed(event: dict[str, object]) -> None:
    assert {f"`{name}`" for name in event} <= set(coverage_rows())


def security_tests() -> dict[str, list[str]]:
    """Return the tests of each claim about security."""
    section = text("docs/security.md").partition("## Tests\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (`tests/.+`) \|$", section, re.MULTILINE)
    return {claim: re.findall(r"`(tests/[^`]+)`", tests) for claim, tests in rows}


def test_each_claim_about_security_has_a_test() -> None:
    claims, tests = text("docs/security.md").split("## Tests\n")
    tables = re.findall(r"^\|[^\n]*\n\|---[^\n]*\n((?:\|[^\n]*\n)+)", claims, re.MULTILINE)
    rows = [line.removeprefix("| ").partition(" | ")[0] for table in tables for line in table.splitlines()]
    assert len(rows) > 20
    assert set(rows) - set(security_tests()) == set()
    listed = tests.partition("\n## ")[0].count("\n| ") - 1
    assert listed == len(security_tests()), "a claim has no test"


@pytest.mark.parametrize("test", sorted({test for tests in security_tests().values() for test in tests}))
def test_tests_of_claims_about_security_exist(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in text(file)


def figure_links() -> list[str]:
    """Return the anchors of the report to which the README links."""
    return re.findall(r"\(bench/report\.md#([^)]+)\)", text("README.md"))


def test_claims_of_the_readme_link_to_figures_of_benchmarks() -> None:
    section = text("README.md").partition("## What it costs\n")[2].partition("\n## ")[0]
    claims = re.findall(r"^\| (?!claim|-)(.+) \|$", section, re.MULTILINE)
    assert len(claims) >= 10
    assert [claim for claim in claims if "](bench/report.md#" not in claim] == []
    measures = set(list_measures())
    assert [link for link in figure_links() if link.partition("-")[0] not in measures] == []


@pytest.mark.skipif(not REPORT.exists(), reason="no full run of make bench is committed")
@pytest.mark.parametrize("link", figure_links())
def test_figures_of_the_readme_are_in_the_report_and_hold(link: str) -> None:
    report = msgspec.json.decode(REPORT.with_suffix(".json").read_bytes(), type=BenchReport)
    (figure,) = (figure for figure in report.figures if figure.anchor == link)
    assert f'<a id="{link}">' in text("bench/report.md")
    assert figure.is_met
