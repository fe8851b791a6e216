"""The documentation names what there is, all of it, and nothing else."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pytest
from mcp import Client

from clew.cli.main import cli
from clew.events.rejection import RejectionReason
from clew.lake.tables import DERIVED_TABLE_NAMES, SOURCE_TABLES, Table
from clew.mcp.server import create_server
from clew.pipeline.derive import DERIVED_TABLES

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
LARGEST_IMAGE = 200_000
# Set by clew for the processes that it starts itself.
INTERNAL_VARIABLES = {"CLEW_PATH", "CLEW_DEMO_DATA", "CLEW_SESSION_ID", "CLEW_EVENT_WORKER"}
COMMON_OPTIONS = {"--help", "-h", "--version"}

RUN_PAGES = ("docs/cli.md", "docs/pipeline.md", "docs/tables.md", "docs/reports.md")
# These serve until they are stopped, on ports that the page names.
RUN_ELSEWHERE = {"clew up": "tests/e2e/test_up.py", "clew collect": "tests/e2e/conftest.py"}
# They serve, or print what a shell reads.
SILENT = {"clew up", "clew collect", "clew serve", "clew mcp", "clew completion"}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(page: str, level: int) -> dict[str, str]:
    """A page's sections of one level, each up to the next heading of that level or a higher one."""
    heading = re.compile(rf"^#{{{level}}} `?([^`\n]+?)`?\n(.*?)(?=^#{{1,{level}}} |\Z)", re.MULTILINE | re.DOTALL)
    return dict(heading.findall(outside_blocks(page)))


def outside_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def first_cells(section: str) -> list[str]:
    """What stands in backticks in the first column of the section's tables."""
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
    found = {
        name
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden
        for name in (*one.opts, *one.secondary_opts)
    }
    return found - COMMON_OPTIONS


COMMANDS = dict(commands(cli))


def test_every_command_has_its_section() -> None:
    documented = [title for title in sections(text("docs/cli.md"), 2) if title.startswith("clew ")]
    assert sorted(documented) == sorted(COMMANDS)


def test_every_command_is_shown_and_run() -> None:
    # The tests of the documentation run what stands in these blocks.
    pages = ("README.md", *RUN_PAGES)
    shown = [line for page in pages for line in re.findall(r"^\$ (clew [^\n]*)", text(page), re.MULTILINE)]
    missing = {name for name in COMMANDS if not any(f"{line} ".startswith(f"{name} ") for line in shown)}
    assert missing <= set(RUN_ELSEWHERE)
    for name, test in RUN_ELSEWHERE.items():
        assert f'"{name.split()[-1]}"' in text(test)


def test_every_command_that_has_something_to_tell_tells_it_as_json() -> None:
    assert {name for name, command in COMMANDS.items() if "--json" not in options(command)} == SILENT


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_documented_and_every_documented_one_exists(name: str) -> None:
    section = sections(text("docs/cli.md"), 2)[name]
    documented = {cell for cell in first_cells(section) if cell.startswith("-")}
    assert documented == options(COMMANDS[name])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_in_its_section(name: str) -> None:
    section = text("docs/cli.md").split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert re.search(rf"^\$ {name}\b", section, re.MULTILINE)


def test_commands_that_pages_mention_exist() -> None:
    mentioned = {
        found for page in PAGES for found in re.findall(r"`clew ([a-z]+)(?: |`)", page.read_text(encoding="utf-8"))
    }
    assert mentioned <= {name.split()[1] for name in COMMANDS}


def test_the_agents_tools_are_listed() -> None:
    async def names() -> set[str]:
        async with Client(create_server(Path("none"))) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    section = sections(text("docs/cli.md"), 2)["clew mcp"]
    assert {cell for cell in first_cells(section) if not cell.startswith("-")} == asyncio.run(names())


def test_every_variable_of_the_environment_is_documented() -> None:
    source = "\n".join(module.read_text(encoding="utf-8") for module in (ROOT / "src").rglob("*.py"))
    documented = set(first_cells(sections(text("docs/cli.md"), 2)["Environment"]))
    assert documented == set(re.findall(r'"(CLEW_[A-Z_]+)"', source)) - INTERNAL_VARIABLES


def documented_columns(table: str) -> dict[str, str]:
    """The documented columns of a table with their types."""
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
    assert set(DERIVED_TABLES) == set(DERIVED_TABLE_NAMES)
    assert sorted(sections(text("docs/tables.md"), 3)) == sorted(names)
    overview = text("docs/tables.md").split("## Event tables")[0]
    assert sorted(re.findall(r"^\| \[`(\w+)`\]\(#\1\) \|", overview, re.MULTILINE)) == sorted(names)


def test_every_reason_of_rejection_is_documented() -> None:
    section = sections(text("docs/pipeline.md"), 2)["Rejected events"]
    assert sorted(first_cells(section)) == sorted(RejectionReason)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    body = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", outside_blocks(body)) + re.findall(r'(?:src|srcset)="([^"]+)"', body)
    for link in links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", text("docs/index.md")))
    assert listed == {page.name for page in DOCS.glob("*.md")} - {"index.md"}


def test_images_are_light_and_all_shown() -> None:
    images = list((DOCS / "images").iterdir())
    assert images
    for image in images:
        assert image.stat().st_size < LARGEST_IMAGE
        assert f"docs/images/{image.name}" in text("README.md")


def test_targets_of_make_exist() -> None:
    made = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert named <= made


def test_extras_exist() -> None:
    declared = set(re.findall(r"^(\w+) = \[", text("pyproject.toml").split("optional-dependencies]")[1], re.MULTILINE))
    for page in PAGES:
        for extras in re.findall(r"(?:clew|\.whl)\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert set(extras.split(",")) <= declared


@pytest.mark.parametrize("page", ["README.md", "docs/capture.md"])
def test_what_a_page_asks_in_place_is_answered_so(page: str, tmp_path: Path) -> None:
    found = re.search(r"```python\n(import clew\n.*?)```\n+```text\n(.*?)```", text(page), re.DOTALL)
    assert found is not None
    code, answer = found.groups()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.stdout == answer, ended.stderr
