"""Properties of the interfaces: CLI, exports, HTTP APIs, Python client, web UI and MCP answer a question alike."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from starlette.testclient import TestClient
from tests.support.event_generator import START, Scenario

import clew
from clew.cli.main import cli
from clew.cli.serving import build_read_app
from clew.data_dir import DataDir
from clew.mcp.server import create_server

TABLES = ["t0", "t1", "t2"]
NAMES = ["x", "y"]
COLUMNS = [f"{table}.{name}" for table in TABLES for name in NAMES]
# A later round reads what an earlier one wrote, so that the lineage at the time of use is the latest lineage.
ROUNDS = len(COLUMNS) + 1

# An example takes up to a second, so that shrinking would take minutes.
QUICK = settings(max_examples=10, phases=(Phase.explicit, Phase.reuse, Phase.generate))

# `a0` and `a1` become aliases of `t0` and `t1` if there are symlinks.
names = st.sampled_from([*TABLES, "a0", "a1"])
columns = st.builds("{}.{}".format, names, st.sampled_from(NAMES))
sources = st.lists(st.builds("{}{}".format, columns, st.sampled_from(["", "", "!FILTER"])), max_size=3).map(" ".join)
runs = st.fixed_dictionaries(
    {
        "job": st.sampled_from(["j0", "j1", "j2"]),
        "inputs": st.lists(names, max_size=2),
        "output": names,
        "columns": st.dictionaries(st.sampled_from([*NAMES, ""]), sources, min_size=1, max_size=3),
    }
)
steps = st.lists(runs, min_size=1, max_size=5, unique_by=lambda run: (run["job"], canonical(run["output"])))

# Source and target with type and subtype, or only source and target.
Edges = set[tuple[str, ...]]


def canonical(table: Any) -> str:
    return str(table).replace("a", "t")


class Interfaces:
    """All interfaces of one index; answers have canonical names `table`, `table.column` or `job`."""

    def __init__(self, folder: Path, client: TestClient) -> None:
        self._folder, self._client = folder, client
        http: Any = client
        self.client = clew.Client("http://testserver", http=http)

    def run_cli(self, *arguments: str, exit_code: int | None = 0) -> Any:
        result = CliRunner().invoke(cli, [*arguments, "--json", "--home", str(self._folder)], catch_exceptions=False)
        assert exit_code is None or result.exit_code == exit_code, result.stderr
        return json.loads(result.stdout)

    def get(self, path: str, **params: Any) -> Any:
        response = self._client.get(f"/api/{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def call_tool(self, tool: str, **arguments: Any) -> Any:
        async def run_client() -> Any:
            async with Client(create_server(self._folder / "index.sqlite")) as client:
                return (await client.call_tool(tool, arguments)).structured_content

        return asyncio.run(run_client())

    def export(self, node: str, direction: str, suffix: str) -> Path:
        """Write an export with all nodes and return the file."""
        file = self._folder / f"export.{suffix}"
        options = "--direction", direction, "--depth", "100", "--limit", "10000", "--out", str(file)
        self.run_cli("export", node, *options)
        return file

    def v2(self, node: str, direction: str, **params: Any) -> Any:
        return self.get("v2/lineage", nodeId=node, direction=direction, depth=100, **params)


OpenInterfaces = Callable[..., AbstractContextManager[Interfaces]]


@pytest.fixture(scope="module")
def open_interfaces(tmp_path_factory: pytest.TempPathFactory) -> OpenInterfaces:
    """Return a function that indexes events and opens all interfaces of the index."""

    @contextmanager
    def open_index(events: list[Any], *, has_symlinks: bool) -> Iterator[Interfaces]:
        # Not a TemporaryDirectory: the server builds its search index in the background.
        folder = tmp_path_factory.mktemp("interfaces")
        scenario = Scenario(folder)
        for _ in range(ROUNDS):
            for run in events:
                maps = {run["output"]: run["columns"]}
                scenario.run(run["job"], " ".join(run["inputs"]), run["output"], columns=maps)
        for number in (0, 1) if has_symlinks else ():
            scenario.symlink(f"t{number}", f"a{number}")
        # Every table exists, so that every question has an answer.
        schema = {"fields": [{"name": name, "type": "int"} for name in NAMES]}
        for table in TABLES:
            scenario.dataset(table, schema=schema)
        scenario.index_events()
        with TestClient(build_read_app(DataDir(folder))) as client:
            yield Interfaces(folder, client)

    return open_index


def short_name(node_id: str) -> str:
    """Return `table`, `table.column` or `job` of a node id."""
    kind, _, *rest = node_id.split(":")
    return rest[0] if kind == "job" else ".".join(rest)


def lineage_edges(answer: Any) -> Edges:
    return {
        (
            short_name(edge["from"]),
            short_name(edge["to"]),
            *(() if edge["kind"] in {"READ", "WRITE"} else (edge["kind"], edge["subtype"])),
        )
        for edge in answer["edges"]
    }


def lineage_nodes(answer: Any) -> set[str]:
    return {short_name(node["id"]) for node in answer["nodes"][1:]}


def tree_edges(step: Any, *, is_canonical: bool) -> Edges:
    edges = set()
    for source in step["upstream"]:
        kind = source["edge"]["type"], source["edge"]["subtype"]
        edges.add((*(tree_name(end, is_canonical=is_canonical) for end in (source, step)), *kind))
        edges |= tree_edges(source, is_canonical=is_canonical)
    return edges


def tree_name(step: Any, *, is_canonical: bool) -> str:
    table = step["dataset"]["name"]
    return f"{canonical(table) if is_canonical else table}.{step['column']}"


def field_edges(answer: Any) -> Edges:
    """Return the edges of v1 column lineage."""
    return {
        (
            f"{source['dataset']}.{source['field']}",
            f"{node['data']['dataset']}.{node['data']['field']}",
            transformation["type"],
            transformation["subtype"],
        )
        for node in answer["graph"]
        for source in node["data"]["inputFields"]
        for transformation in source["transformations"]
    }


def without_datasets(edges: Edges) -> Edges:
    return {edge for edge in edges if "." in edge[0] and "." in edge[1]}


def page_links(page: Any) -> Edges:
    return {tuple(unquote(link[end].rsplit("/", 1)[-1]) for end in ("source", "target")) for link in page["links"]}


def page_edges(page: Any, column: str) -> Edges:
    """Return the column edges into a column or its whole dataset."""
    table, _, name = column.partition(".")
    return {
        (f"{page['nodes'][edge['source']['state']]['name']}.{edge['source']['column']}", edge["type"], edge["subtype"])
        for edge in page["edges"]
        if page["nodes"][edge["target"]["state"]]["name"] == table and edge["target"]["column"] in (name, None)
    }


@QUICK
@given(events=steps, has_symlinks=st.booleans(), column=st.sampled_from(COLUMNS))
def test_all_interfaces_give_the_same_column_lineage(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, column: str
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        node = f"datasetField:db:{column.replace('.', ':')}"
        upstream, downstream = (interfaces.v2(node, direction) for direction in ("upstream", "downstream"))
        assert tree_edges(interfaces.run_cli("upstream", node), is_canonical=has_symlinks) == lineage_edges(upstream)
        assert lineage_edges(interfaces.run_cli("downstream", node)) == lineage_edges(downstream)
        fields = interfaces.get("v1/column-lineage", nodeId=node, depth=100)
        assert field_edges(fields) == without_datasets(lineage_edges(upstream))
        fields = interfaces.get("v1/column-lineage", nodeId=node, depth=100, withDownstream=True)
        assert field_edges(fields) == without_datasets(lineage_edges(upstream) | lineage_edges(downstream))
        reply = interfaces.call_tool("downstream", name=node, depth=100)
        assert {short_name(entry["id"]) for entry in reply["nodes"]} == lineage_nodes(downstream)
        direct = {edge[:2] for edge in lineage_edges(upstream) if edge[2] == "DIRECT"}
        reply = interfaces.call_tool("upstream", name=node, depth=100)
        assert {
            (tool_name(source["column"], has_symlinks), tool_name(step["column"], has_symlinks))
            for step in reply["steps"]
            for source in step["sources"]
        } == direct


def tool_name(text: str, is_canonical: bool) -> str:
    name = text.removeprefix("db:")
    return canonical(name) if is_canonical else name


@QUICK
@given(events=steps, has_symlinks=st.booleans(), table=st.sampled_from(TABLES), minute=st.none() | st.integers(0, 40))
def test_all_interfaces_give_the_same_dataset_lineage(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, table: str, minute: int | None
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        node, as_of = f"dataset:db:{table}", {}
        if minute is not None:
            as_of = {"asOf": (START + timedelta(minutes=minute)).isoformat()}
        # The CLI and MCP have no point in time.
        for direction in ("upstream", "downstream") if minute is None else ():
            answer = interfaces.v2(node, direction)
            assert lineage_edges(interfaces.run_cli(direction, node)) == lineage_edges(answer)
            reply = interfaces.call_tool(direction, name=node, depth=100)
            assert {short_name(entry["id"]) for entry in reply["nodes"]} == lineage_nodes(answer)
        page = interfaces.get("v2/pages/graph", node=f"dataset/db/{table}", depth=20, **as_of)
        answer = interfaces.v2(node, "both", **as_of)
        assert page_links(page) == lineage_edges(answer)
        assert {item["name"] for item in page["nodes"]} == {table, *lineage_nodes(answer)}
        for column in (f"{table}.{name}" for name in NAMES):
            field = f"datasetField:db:{column.replace('.', ':')}"
            nearest = interfaces.get("v2/lineage", nodeId=field, direction="upstream", depth=1, **as_of)
            shown = {item["name"] for item in page["nodes"]}
            assert page_edges(page, column) == {
                (edge[0], *edge[2:]) for edge in lineage_edges(nearest) if edge[0].partition(".")[0] in shown
            }


@QUICK
@given(events=steps, has_symlinks=st.booleans(), table=st.sampled_from(TABLES))
def test_marquez_lineage_is_the_connected_component(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, table: str
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        edges: Edges = set()
        for name in TABLES if has_symlinks else [*TABLES, "a0", "a1"]:
            if name in TABLES or is_used(events, name):
                edges |= lineage_edges(interfaces.v2(f"dataset:db:{name}", "both"))
        component, pending = {table}, [table]
        while pending:
            name = pending.pop()
            found = {end for edge in edges if name in edge for end in edge} - component
            component |= found
            pending += found
        graph = interfaces.get("v1/lineage", nodeId=f"dataset:db:{table}", depth=100)["graph"]
        assert {short_name(node["id"]) for node in graph} == component
        links = {tuple(map(short_name, (e["origin"], e["destination"]))) for node in graph for e in node["inEdges"]}
        assert links == {edge for edge in edges if edge[0] in component}


def is_used(events: list[Any], name: str) -> bool:
    sources = " ".join(text for run in events for text in run["columns"].values())
    return f"{name}." in sources or any(name in (*run["inputs"], run["output"]) for run in events)


@QUICK
@given(events=steps, column=st.sampled_from(COLUMNS), count=st.integers(1, 10))
def test_lineage_as_of_a_time_is_that_of_the_events_until_then(
    open_interfaces: OpenInterfaces, events: list[Any], column: str, count: int
) -> None:
    # Each job writes other columns in its second run.
    later = [{**run, "columns": {"x": "t2.y"}} for run in events]
    all_events = [*events, *later]
    node = f"datasetField:db:{column.replace('.', ':')}"
    with open_interfaces(all_events[:count], has_symlinks=False) as interfaces:
        expected = interfaces.v2(node, "both")
    with open_interfaces(all_events, has_symlinks=False) as interfaces:
        # The first round of all events, up to the last one that counts.
        as_of = START + timedelta(minutes=min(count, len(all_events)) - 1)
        answer = interfaces.v2(node, "both", asOf=as_of.isoformat())
    assert lineage_edges(answer) == lineage_edges(expected)


@QUICK
@given(events=steps, has_symlinks=st.booleans(), number=st.integers(0, 4))
def test_all_interfaces_give_the_same_run_lineage(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, number: int
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        job = events[number % len(events)]["job"]
        run = interfaces.get("v2/runs", nodeId=f"job:jobs:{job}")["runs"][0]["id"]
        answer = interfaces.v2(f"run:{run}", "upstream", limit=10_000)
        edges = {tuple(edge[key].partition(":")[2] for key in ("from", "to", "dataset")) for edge in answer["edges"]}
        assert interfaces.run_cli("upstream", f"run:{run}", "--limit", "10000")["edges"] == answer["edges"]
        reply = interfaces.call_tool("upstream", name=f"run:{run}", depth=100, max_tokens=50_000)
        assert {entry["id"] for entry in reply["nodes"]} == {node["id"] for node in answer["nodes"][1:]}
        upstream = interfaces.get("v1/runlineage/upstream", runId=run, depth=100)["runs"]
        assert [item["run"]["id"] for item in upstream] == [node["id"].partition(":")[2] for node in answer["nodes"]]
        assert {
            (source["producedByRunId"], item["run"]["id"], f"{source['namespace']}:{source['name']}")
            for item in upstream
            for source in item["inputs"]
            if source["producedByRunId"] is not None
        } == edges


def to_json(result: Any) -> Any:
    return json.loads(msgspec.json.encode(result))


def parquet_edges(file: Path) -> list[tuple[str, ...]]:
    return [(row["from"], row["to"], row["kind"], row["subtype"] or "") for row in pq.read_table(file).to_pylist()]


def dot_edges(file: Path) -> list[tuple[str, ...]]:
    """Return the edges of a Graphviz file: source, target, subtype in lower case and style."""
    pattern = r'^    "([^"]+)" -> "([^"]+)"(?: \[(?:label="(\w+)")?(?:, )?(?:style=(\w+))?\])?;$'
    return [edge.groups("") for edge in re.finditer(pattern, file.read_text(), re.MULTILINE)]


def mermaid_edges(file: Path, nodes: list[str]) -> list[tuple[str, ...]]:
    """Return the edges of a Mermaid file as `dot_edges` does; ids are the positions of nodes."""
    edges = re.findall(r'^    n(\d+) (-->|-\.->)(?:\|"(\w+)"\|)? n(\d+)$', file.read_text(), re.MULTILINE)
    return [
        (nodes[int(start)], nodes[int(end)], subtype, "dashed" if arrow == "-.->" else "")
        for start, arrow, subtype, end in edges
    ]


def svg_edges(file: Path) -> list[tuple[str, str]]:
    """Return the type and the subtype, or the type in lower case, of each edge of a picture."""
    return re.findall(r'<path class="(\w+)"[^>]*><title>(\w+)</title>', file.read_text())


@QUICK
@given(
    events=steps,
    has_symlinks=st.booleans(),
    name=st.sampled_from([*TABLES, *COLUMNS]),
    direction=st.sampled_from(["upstream", "downstream", "both"]),
)
def test_client_and_exports_have_the_same_lineage(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, name: str, direction: Any
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        table, _, column = name.partition(".")
        node = f"datasetField:db:{table}:{column}" if column else f"dataset:db:{table}"
        answer = interfaces.v2(node, direction)
        assert to_json(interfaces.client.lineage(node, direction=direction, depth=100)) == answer
        whole = interfaces.client.lineage(f"dataset:db:{table}", column or None, direction=direction, depth=100)
        assert to_json(whole) == answer
        nodes = [item["id"] for item in answer["nodes"]]
        edges = [(edge["from"], edge["to"], edge["kind"], edge.get("subtype") or "") for edge in answer["edges"]]
        drawn = [(*edge[:2], edge[3].lower(), "dashed" if edge[2] == "INDIRECT" else "") for edge in edges]
        assert parquet_edges(interfaces.export(node, direction, "parquet")) == edges
        assert dot_edges(interfaces.export(node, direction, "dot")) == drawn
        assert mermaid_edges(interfaces.export(node, direction, "mmd"), nodes) == drawn
        for suffix in ("svg", "html"):
            picture = interfaces.export(node, direction, suffix)
            assert svg_edges(picture) == [(edge[2], edge[3].lower() or edge[2].lower()) for edge in edges]
            assert re.findall(r"<g [^>]*><title>([^<]*)</title>", picture.read_text()) == nodes


@QUICK
@given(events=steps, has_symlinks=st.booleans(), name=st.sampled_from([*TABLES, *COLUMNS]))
def test_all_interfaces_give_the_same_impact(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, name: str
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        table, _, column = name.partition(".")
        node = f"datasetField:db:{table}:{column}" if column else f"dataset:db:{table}"
        answer = interfaces.get("v2/impact", nodeId=node, depth=100)
        assert to_json(interfaces.client.impact(node, depth=100)) == answer
        assert interfaces.run_cli("impact", node, "--depth", "100") == answer
        reply = interfaces.call_tool("impact", name=node, depth=100)
        expected = [
            (f"dataset:db:{item['dataset']['name']}", item["distance"], item["dependencyType"] == "DIRECT")
            for item in answer["affected"]
        ]
        assert [(entry["id"], entry["hops"], entry["is_direct"]) for entry in reply["affected"]] == expected
        reached = {dataset.rpartition(":")[2] for dataset, *_ in expected}
        # A change reaches all that is downstream, and more: INDIRECT lineage after INDIRECT lineage.
        starts = [column] if column else NAMES
        fields = [interfaces.v2(f"datasetField:db:{table}:{start}", "downstream") for start in starts]
        assert {end.partition(".")[0] for answer in fields for end in lineage_nodes(answer)} <= reached | {table}


@QUICK
@given(events=steps, has_symlinks=st.booleans(), ends=st.tuples(st.sampled_from(TABLES), st.sampled_from(TABLES)))
def test_all_interfaces_give_the_same_path(
    open_interfaces: OpenInterfaces, events: list[Any], has_symlinks: bool, ends: tuple[str, str]
) -> None:
    with open_interfaces(events, has_symlinks=has_symlinks) as interfaces:
        start, end = (f"dataset:db:{table}" for table in ends)
        answer = interfaces.get("v2/path", **{"from": start, "to": end})
        assert to_json(interfaces.client.path(start, end)) == answer
        assert interfaces.run_cli("path", start, end, exit_code=None) == answer
        links = [short_name(item["id"]) for item in answer["nodes"]] if answer["edges"] else []
        reply = interfaces.call_tool("path_between", start=start, end=end)
        steps = [short_name(step.removeprefix("→ ").partition(" (")[0]) for step in reply["steps"]]
        assert (reply["is_found"], steps) == (bool(links), links)
        is_connected = any(
            short_name(target) in lineage_nodes(interfaces.v2(source, "downstream"))
            for source, target in ((start, end), (end, start))
        )
        assert bool(answer["nodes"]) == is_connected or start == end
